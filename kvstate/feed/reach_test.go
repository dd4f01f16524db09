package feed

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/zmqsock"
)

// An engine that cannot be reached is a warning after some seconds, once, and no
// more when it can.
func TestUnreachableEngineIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		e := r.engine("W", 1, 0, true, 2)
		refused := errors.New("connection refused")
		attempt := func() { e.feed.link.notify(zmqsock.Event{Err: refused}); synctest.Wait() }
		attempt()
		time.Sleep(4 * time.Second)
		attempt()
		if d := e.feed.Details(); d.LinkError != "" {
			t.Errorf("after 4 s it is told already: %s", d.LinkError)
		}
		time.Sleep(time.Second)
		attempt()
		_, err := e.feed.Status()
		if !errors.Is(err, ErrDisconnected) || !strings.Contains(err.Error(), refused.Error()) {
			t.Errorf("after 5 s its status says %v", err)
		}
		e.connect()
		if _, err := e.feed.Status(); err != nil || e.feed.Details().LinkError != "" {
			t.Errorf("reached, it says %v, %q", err, e.feed.Details().LinkError)
		}
		e.disconnect()
		attempt()
		if d := e.feed.Details(); d.LinkError != "" {
			t.Errorf("just lost, it is told already: %s", d.LinkError)
		}
	})
}
