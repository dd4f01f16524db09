package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

// observed is a running watch whose calls a test can wait for.
type observed struct {
	t       *testing.T
	changes chan string // what the file held at each call; "" if unreadable
}

// observe watches path without polling, so that only notifications can help,
// and waits for the first call.
func observe(t *testing.T, path string) *observed {
	t.Helper()
	o := &observed{t: t, changes: make(chan string, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- watch(ctx, path, 24*time.Hour, func() {
			data, _ := os.ReadFile(path) // unreadable shows as empty
			o.changes <- string(data)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("watch ended with %v", err)
		}
		goleak.VerifyNone(t)
	})
	o.next()
	return o
}

func (o *observed) next() string {
	o.t.Helper()
	select {
	case content := <-o.changes:
		return content
	case <-time.After(10 * time.Second):
		o.t.Fatal("no call within 10 s")
		return ""
	}
}

// until waits for the call that saw the content. Calls before it may have seen
// the steps on the way.
func (o *observed) until(content string) {
	o.t.Helper()
	for o.next() != content {
	}
}

// must turns the error of a file operation into the end of the test.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

// replace puts content in the place of what is at path in one step.
func replace(t *testing.T, path, content string) {
	t.Helper()
	put(t, path+".new", content)
	must(t, os.Rename(path+".new", path))
}

func TestWatchSeesWritesAndRenames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	put(t, path, "one")
	o := observe(t, path)

	put(t, path, "two")
	o.until("two")

	replace(t, path, "three")
	o.until("three")

	// An editor that moves the old file away first.
	must(t, os.Rename(path, path+"~"))
	put(t, path, "four")
	o.until("four")

	// Neither a neighbour nor a touch nor a rewrite of the same is a change:
	// the next call is that of the change after them.
	replace(t, path, "five")
	o.until("five")
	put(t, path+".other", "x")
	must(t, os.Chtimes(path, time.Now(), time.Now()))
	replace(t, path, "five")
	replace(t, path, "six")
	if got := o.next(); got != "six" {
		t.Errorf("call at %q", got)
	}
}

func TestWatchSeesAMissingFileComeAndGo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "f.yaml")
	o := observe(t, path)

	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	put(t, path, "one")
	o.until("one")

	must(t, os.Remove(path))
	o.until("")
	put(t, path, "two")
	o.until("two")

	must(t, os.RemoveAll(filepath.Join(dir, "a")))
	o.until("")
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	put(t, path, "three")
	o.until("three")

	// The directory is moved away and another takes its place.
	must(t, os.Rename(filepath.Dir(path), filepath.Join(dir, "gone")))
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	put(t, path, "four")
	o.until("four")
	put(t, path, "five")
	o.until("five")
}

// As the kubelet's atomic writer does it: f.yaml -> ..data/f.yaml and
// ..data -> ..version, which is swapped by a rename.
func TestWatchSeesKubernetesVolumesSwap(t *testing.T) {
	dir := t.TempDir()
	version := func(name, content string) {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		put(t, filepath.Join(dir, name, "f.yaml"), content)
		must(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..1", "one")
	path := filepath.Join(dir, "f.yaml")
	must(t, os.Symlink(filepath.Join("..data", "f.yaml"), path))
	o := observe(t, path)

	version("..2", "two")
	must(t, os.RemoveAll(filepath.Join(dir, "..1")))
	o.until("two")
	version("..3", "three")
	o.until("three")
	must(t, os.RemoveAll(filepath.Join(dir, "..2")))
	put(t, filepath.Join(dir, "..3", "f.yaml"), "written in place")
	o.until("written in place")
}

func TestWatchFollowsLinksToElsewhere(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	put(t, filepath.Join(there, "real.yaml"), "one")
	must(t, os.Symlink(there, filepath.Join(here, "dir")))
	path := filepath.Join(here, "f.yaml")
	must(t, os.Symlink(filepath.Join("dir", "real.yaml"), path))
	o := observe(t, path)

	put(t, filepath.Join(there, "real.yaml"), "two")
	o.until("two")

	other := t.TempDir()
	put(t, filepath.Join(other, "real.yaml"), "three")
	must(t, os.Remove(filepath.Join(here, "dir")))
	must(t, os.Symlink(other, filepath.Join(here, "dir")))
	o.until("three")

	// A loop of links is a file that cannot be read.
	must(t, os.Remove(path))
	must(t, os.Symlink("f.yaml", path))
	o.until("")
	must(t, os.Remove(path))
	put(t, path, "four")
	o.until("four")
}

func TestWatchOfARelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "f.yaml", "one")
	o := observe(t, "f.yaml")
	put(t, "f.yaml", "two")
	o.until("two")
}

func TestPollingAloneSuffices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "f.yaml")
		put(t, path, "one")
		w := &watched{path: path}
		var calls atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		go follow(ctx, nil, nil, polling, w.changed, func() { calls.Add(1) })
		time.Sleep(3*polling + polling/2) // between two looks
		if n := calls.Load(); n != 1 {
			t.Fatalf("%d calls without a change, want the first one only", n)
		}
		put(t, path, "two")
		time.Sleep(3 * polling)
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls after a change, want 2", n)
		}
		cancel()
	})
}

func TestBurstsAreOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, failures := make(chan fsnotify.Event), make(chan error)
		var looks []time.Duration
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		go follow(ctx, events, failures, time.Hour, func() bool {
			looks = append(looks, time.Since(start))
			return true
		}, func() {})
		expect := func(what string, want ...time.Duration) {
			t.Helper()
			synctest.Wait()
			if len(looks) != len(want) {
				t.Fatalf("%s: looked at %v, want %v", what, looks, want)
			}
			for i := range want {
				if looks[i] != want[i] {
					t.Errorf("%s: looked at %v, want %v", what, looks, want)
				}
			}
			looks, start = nil, time.Now()
		}
		expect("at the start", 0)

		for range 5 {
			events <- fsnotify.Event{}
			time.Sleep(quiet / 2)
		}
		time.Sleep(time.Second)
		expect("five events 50 ms apart", 4*quiet/2+quiet)

		for range 30 {
			events <- fsnotify.Event{}
			time.Sleep(quiet / 2)
		}
		time.Sleep(time.Second)
		expect("events that do not end", longest, 30*quiet/2-quiet/2+quiet)

		failures <- errors.New("overflow")
		expect("lost events", 0)

		close(events)
		close(failures)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(looks) != 1 {
			t.Errorf("looked at %v in an hour of polling hourly, the channels closed", looks)
		}
		cancel()
	})
}

func TestDecidingDirs(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "real"), 0o700))
	put(t, filepath.Join(dir, "real", "f"), "")
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	must(t, os.Symlink("../link/./f", filepath.Join(dir, "real", "alias")))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	for path, want := range map[string][]string{
		"real/f":     {"real"},
		"link/f":     {"", "real"},
		"link/alias": {"", "real"},
		"real/none":  {"real"},
		"no/such/f":  {""},
		"real/f/x":   {"real/f"}, // a file where a directory should be: its own name tells
		"loop":       {""},
	} {
		got := decidingDirs(filepath.Join(dir, path))
		if len(got) != len(want) {
			t.Errorf("%s: %v", path, got)
			continue
		}
		for i := range want {
			if got[i] != filepath.Join(dir, want[i]) {
				t.Errorf("%s: %v, want %v", path, got, want)
			}
		}
	}
}
