package reconcile

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"mooring/kvstate"
)

const (
	quiet         = 10 * time.Millisecond  // without an event, after which a burst is over
	longest       = 100 * time.Millisecond // a burst that does not end is cut here
	rescan        = 5 * time.Second        // for what no event tells: network file systems, lost events
	rescanWhenOff = time.Second            // while the directory cannot be read
)

// directory is the discovery source of a watched directory: a record is the file
// <root>/<topic>/<record id>.json. It is written under another name and renamed;
// what is written in place is ignored until it is whole. A file that leaves
// withdraws its record. It may be a link: what is behind it counts.
//
// If the root or a topic's directory that was there leaves, or cannot be read,
// the watch is uncertain until it is back: nothing is withdrawn by that. A topic's
// directory that was never there has no records. All fields are owned by run.
type directory struct {
	root     string
	notifier *fsnotify.Watcher // nil: there are no notifications, rescans remain
	topics   []*topicDir
	told     bool // the receiver has heard anything
	standing bool // what the receiver was told last: all is known
}

// newDirectory returns the source for a root. refused is called, from run, once
// for each version of a file that is not taken, and once when files of a topic begin
// to wait for room.
func newDirectory(root string, refused func(refusal)) *directory {
	return &directory{root: filepath.Clean(root), topics: []*topicDir{
		newTopicDir(kvstate.SourceTopic, decodeSource, refused),
		newTopicDir(kvstate.AttachmentTopic, decodeAttachment, refused),
	}}
}

// run says everything once, then every change, until ctx ends. tell may block.
func (d *directory) run(ctx context.Context, tell func(update)) {
	var events <-chan fsnotify.Event
	var failures <-chan error
	if notifier, err := fsnotify.NewWatcher(); err == nil { // else: out of inotify instances
		defer notifier.Close()
		d.notifier = notifier
		events, failures = notifier.Events, notifier.Errors
	}
	d.loop(ctx, events, failures, tell)
}

// loop looks at all at once, at what an event names when its burst is over, at all
// when events may have been lost, and at all after a pause whatever events say.
func (d *directory) loop(ctx context.Context, events <-chan fsnotify.Event, failures <-chan error, tell func(update)) {
	var due time.Time // the next look at all
	next := time.NewTimer(0)
	defer next.Stop()
	var heard hearsay
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-events:
			if !open {
				events = nil
				continue
			}
			if d.note(&heard, e) {
				next.Reset(heard.wait(time.Now()))
			}
			continue
		case _, open := <-failures:
			if !open {
				failures = nil
				continue
			}
			heard.all = true // events may have been lost
		case <-next.C:
			heard.all = heard.all || !time.Now().Before(due)
		}
		d.look(heard, tell)
		if heard.all || !d.standing {
			due = time.Now().Add(d.pause())
		}
		heard = hearsay{}
		next.Reset(time.Until(due))
	}
}

func (d *directory) pause() time.Duration {
	if d.standing {
		return rescan
	}
	return rescanWhenOff
}

// hearsay is what events said since the last look.
type hearsay struct {
	all   bool           // look at everything
	names map[place]bool // else at these
	since time.Time      // of the first event
}

// place is one file of one topic.
type place struct{ topic, name string }

// of returns the names of a topic that are to be looked at; nil is all.
func (h *hearsay) of(topic string) map[string]bool {
	if h.all {
		return nil
	}
	names := make(map[string]bool)
	for p := range h.names {
		if p.topic == topic {
			names[p.name] = true
		}
	}
	return names
}

// wait returns how long to wait for the end of a burst of events.
func (h *hearsay) wait(now time.Time) time.Duration {
	if h.since.IsZero() {
		h.since = now
	}
	return max(0, min(quiet, h.since.Add(longest).Sub(now)))
}

// note remembers what an event is about: one record, or anything else. It reports
// false if that is nothing of ours: a file that is not renamed yet, or what happens
// beside the root, where there may be much traffic.
func (d *directory) note(h *hearsay, e fsnotify.Event) bool {
	dir, name := filepath.Dir(e.Name), filepath.Base(e.Name)
	for _, t := range d.topics {
		if dir == filepath.Join(d.root, t.name) {
			return h.note(t.name, name)
		}
	}
	if beside := filepath.Dir(d.root); beside != d.root && dir == beside && name != filepath.Base(d.root) {
		return false
	}
	h.all = true
	return true
}

// note remembers the name of a file in a topic's directory. With a name that begins
// with two dots Kubernetes changes the targets of all links in a mounted volume.
func (h *hearsay) note(topic, name string) bool {
	if _, ok := recordID(name); !ok {
		h.all = h.all || strings.HasPrefix(name, "..")
		return h.all
	}
	if h.names == nil {
		h.names = make(map[place]bool)
	}
	h.names[place{topic, name}] = true
	return true
}

// look reads what heard names and tells what has changed since. After a time of
// uncertainty, and the first time, it tells everything.
func (d *directory) look(heard hearsay, tell func(update)) {
	d.arm() // before reading, so that what happens in between causes an event
	heard.all = heard.all || !d.standing
	var failures []string // each once: if the root has left, all topics say so
	changed := update{watch: directoryWatch}
	for _, t := range d.topics {
		err := t.look(d.root, heard.of(t.name), &changed)
		if err != nil && !slices.Contains(failures, err.Error()) {
			failures = append(failures, err.Error())
		}
	}
	switch {
	case len(failures) > 0:
		if d.standing || !d.told {
			tell(update{watch: directoryWatch, lost: errors.New(strings.Join(failures, "; "))})
		}
		d.standing = false
	case !d.standing:
		d.standing = true
		tell(d.everything())
	case !changed.empty():
		tell(changed)
	}
	d.told = true
}

// everything returns all records, as one update that replaces what was told.
func (d *directory) everything() update {
	u := update{watch: directoryWatch, whole: true}
	for _, t := range d.topics {
		for id, r := range t.records {
			u.changes = append(u.changes, change{topic: t.name, id: id, record: r})
		}
	}
	return u
}

// arm listens to the directories that matter. Adding one again is harmless, and
// needed where another has taken its name. One that cannot be added is left to
// the rescans.
func (d *directory) arm() {
	if d.notifier == nil {
		return
	}
	_ = d.notifier.Add(filepath.Dir(d.root))
	_ = d.notifier.Add(d.root)
	for _, t := range d.topics {
		_ = d.notifier.Add(filepath.Join(d.root, t.name))
	}
}
