package reconcile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"mooring/kvstate"
)

// looping runs a directory's loop in a bubble, with the events of a notifier that
// the test is.
type looping struct {
	*lookedAt
	mu       sync.Mutex // of told
	events   chan fsnotify.Event
	failures chan error
}

func (w *looping) hear(u update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(u)
}

func loop(t *testing.T, test func(*looping)) {
	synctest.Test(t, func(t *testing.T) {
		w := &looping{lookedAt: newLookedAt(t), events: make(chan fsnotify.Event), failures: make(chan error)}
		w.mkdir(kvstate.SourceTopic, kvstate.AttachmentTopic)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.dir.loop(ctx, w.events, w.failures, w.hear)
		}()
		w.after(0, "all:")
		test(w)
		cancel()
		<-ended
	})
}

// after wants this told when so much time has passed.
func (w *looping) after(d time.Duration, want string) {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.said(); got != want {
		w.t.Errorf("told %q, want %q", got, want)
	}
}

func (w *looping) writeSource(n uint64) {
	w.t.Helper()
	w.write(kvstate.SourceTopic, fmt.Sprintf("%d.json", n), encoded(w.t, sourceRecord(n)))
}

func (w *looping) event(name string) {
	w.events <- fsnotify.Event{Name: filepath.Join(w.root, kvstate.SourceTopic, name), Op: fsnotify.Create}
}

func TestRescanFindsWhatNoEventTells(t *testing.T) {
	loop(t, func(w *looping) {
		w.writeSource(7)
		w.after(rescan-1, "")
		w.after(1, "+sources/7")
		w.remove(kvstate.SourceTopic, "7.json")
		w.after(rescan, "-sources/7")
	})
}

func TestDirectoryThatIsAwayIsTriedEverySecond(t *testing.T) {
	loop(t, func(w *looping) {
		w.rename(w.root, w.root+"-away")
		w.after(rescan, "lost")
		w.after(10*time.Minute, "")
		w.rename(w.root+"-away", w.root)
		w.after(rescanWhenOff-1, "")
		w.after(1, "all:")
	})
}

func TestLostEventsAreALookAtAll(t *testing.T) {
	loop(t, func(w *looping) {
		w.writeSource(7)
		w.failures <- fsnotify.ErrEventOverflow
		w.after(0, "+sources/7")
		w.writeSource(8)
		w.failures <- errors.New("another")
		w.after(0, "+sources/8")
	})
}

func TestEventsAreALookAtWhatTheyName(t *testing.T) {
	loop(t, func(w *looping) {
		w.writeSource(7)
		w.writeSource(8)
		w.event("7.json")
		w.after(quiet-1, "")
		w.after(1, "+sources/7")
	})
}

// However often events come, what they do not tell is found in time.
func TestEventsDoNotPutOffTheRescan(t *testing.T) {
	loop(t, func(w *looping) {
		w.writeSource(7)
		for range rescan / time.Second {
			w.event("8.json") // which is not there
			w.event("8.json.tmp")
			time.Sleep(time.Second)
		}
		w.after(0, "+sources/7")
	})
}

func TestBurstsEndInTime(t *testing.T) {
	loop(t, func(w *looping) {
		w.writeSource(7)
		for range longest / time.Millisecond {
			w.event("7.json")
			time.Sleep(time.Millisecond)
		}
		w.after(0, "+sources/7")
	})
}

// That files are gone counts only if it was one directory that was read.
func TestDirectoryThatIsReplacedWhileItIsRead(t *testing.T) {
	w := newLookedAt(t)
	w.mkdir(kvstate.SourceTopic)
	for i := range uint64(20) {
		w.write(kvstate.SourceTopic, fmt.Sprintf("%d.json", i+1), encoded(t, sourceRecord(i+1)))
	}
	w.look()
	topic, dir := w.dir.topics[0], filepath.Join(w.root, kvstate.SourceTopic)
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	w.mkdir(kvstate.SourceTopic)
	w.write(kvstate.SourceTopic, "21.json", encoded(t, sourceRecord(21)))
	topic.testingOnlyReadFile = func(path string) ([]byte, error) {
		topic.testingOnlyReadFile = nil
		data, err := readSome(path)
		w.rename(dir, dir+"-replaced")
		w.rename(dir+"-away", dir)
		return data, err
	}
	w.wants("lost") // for a moment 20 files were not there
	if n := len(topic.records); n < 20 {
		t.Errorf("%d records are known, want 20 or more", n)
	}
	w.look()
	if n := len(topic.records); n != 20 {
		t.Errorf("%d records are known, want 20", n)
	}
}
