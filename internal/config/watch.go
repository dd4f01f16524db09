package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	quiet   = 100 * time.Millisecond // without an event, after which a burst is over
	longest = time.Second            // a burst that does not end is cut here
	polling = 5 * time.Second        // for what no event tells: network file systems, a renamed ancestor
)

// Watch calls onChange once when the watch stands, and again whenever the
// content of the file at path has become another or the file has become
// unreadable, until ctx ends; then it returns nil. The first call closes the
// gap between the caller's own first reading and the watch.
//
// It compares contents, so neither a touch nor another file of the directory
// causes a call, and it makes no difference how the file changed: written in
// place, replaced by a rename, through a symbolic link (as in Kubernetes
// volumes, where "..data" is swapped), or by its directory leaving and coming
// back. Changes in quick succession are one call.
//
// onChange is called on Watch's own goroutine, one call at a time; what happens
// meanwhile is noticed afterwards. Where the system grants no notifications,
// the file is looked at every few seconds instead. The only error is a path
// that cannot be made absolute.
func Watch(ctx context.Context, path string, onChange func()) error {
	return watch(ctx, path, polling, onChange)
}

func watch(ctx context.Context, path string, poll time.Duration, onChange func()) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	w := &watched{path: path}
	var events <-chan fsnotify.Event
	var failures <-chan error
	if notifier, err := fsnotify.NewWatcher(); err == nil { // else: out of inotify instances; polling remains
		defer notifier.Close()
		w.notifier = notifier
		events, failures = notifier.Events, notifier.Errors
	}
	follow(ctx, events, failures, poll, w.changed, onChange)
	return nil
}

// follow is Watch's loop: it asks changed at once, after each burst of events,
// after a failure (events may have been lost) and at each poll.
func follow(ctx context.Context, events <-chan fsnotify.Event, failures <-chan error, poll time.Duration, changed func() bool, onChange func()) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	settle := time.NewTimer(0) // the first look, at once
	defer settle.Stop()
	var burst time.Time // when the burst under way began; zero: none
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-events:
			if !open {
				events = nil
				continue
			}
			now := time.Now()
			if burst.IsZero() {
				burst = now
			}
			settle.Reset(untilSettled(burst, now))
			continue
		case _, open := <-failures:
			if !open {
				failures = nil
				continue
			}
		case <-ticker.C:
			if !burst.IsZero() { // the end of the burst is near; a look now could see half a file
				continue
			}
		case <-settle.C:
			burst = time.Time{}
		}
		if changed() {
			onChange()
		}
	}
}

// untilSettled returns how long to wait for the end of a burst.
func untilSettled(burst, now time.Time) time.Duration {
	return max(0, min(quiet, burst.Add(longest).Sub(now)))
}

// watched is the file as it was last seen. It is owned by follow.
type watched struct {
	path     string
	notifier *fsnotify.Watcher // nil: there are no notifications
	armed    []string          // directories whose events are heard

	looked bool
	last   content
}

// content is what a file held, as far as telling changes needs it. The zero
// value is a file that could not be read.
type content struct {
	readable bool
	sum      [sha256.Size]byte
}

// changed arms the watch and then reads the file, in this order, so that what
// happens in between causes an event. The first look always is a change.
func (w *watched) changed() bool {
	w.arm()
	var now content
	if data, err := readFile(w.path); err == nil {
		now = content{readable: true, sum: sha256.Sum256(data)}
	}
	if w.looked && now == w.last {
		return false
	}
	w.looked, w.last = true, now
	return true
}

// arm listens to the directories that now decide what the path means. Adding
// one again is harmless and needed where another directory has taken its name.
// One that cannot be added is left to polling.
func (w *watched) arm() {
	if w.notifier == nil {
		return
	}
	const tries = 3 // the path may change while it is followed
	for range tries {
		dirs := decidingDirs(w.path)
		for _, dir := range w.armed {
			if !slices.Contains(dirs, dir) {
				_ = w.notifier.Remove(dir) // it is gone already if its directory is
			}
		}
		for _, dir := range dirs {
			_ = w.notifier.Add(dir)
		}
		w.armed = dirs
		if slices.Equal(dirs, decidingDirs(w.path)) {
			return
		}
	}
}
