package feed

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// B76: an engine that clears its cache on every step is told of once, not with
// every clear, and again when it does so again after a pause.
func TestManyClearsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		e := r.engine("W", 1, 0, false, 2)
		var log bytes.Buffer
		e.feed.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		e.connect()
		clears := func(n int) int {
			for range n {
				e.publish(pack(t, `[0, [["AllBlocksCleared"]]]`), false)
			}
			return strings.Count(log.String(), "clears its kv cache")
		}
		if n := clears(manyClears - 1); n != 0 {
			t.Errorf("told of %d times after few", n)
		}
		for range 10 {
			if n := clears(1000); n != 1 {
				t.Errorf("told of %d times, want once", n)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		if n := clears(1); n != 1 || e.feed.Details().ClearsOften {
			t.Errorf("a single one later: told of %d times, often: %v", n, e.feed.Details().ClearsOften)
		}
		if n := clears(1000); n != 2 {
			t.Errorf("told of %d times, want once more", n)
		}
	})
}
