package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestTurnsLeaveRoomForOtherHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(3, 2)
		take := func(ctx context.Context, host string) (got bool, done func()) {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				done, _ = turns.take(ctx, host)
			}()
			synctest.Wait()
			select {
			case <-ended:
				return done != nil, done
			default:
				return false, nil
			}
		}
		_, first := take(t.Context(), "a")
		_, second := take(t.Context(), "a")
		if first == nil || second == nil {
			t.Fatal("two calls to one host")
		}
		waiting, stop := context.WithCancel(t.Context())
		if got, _ := take(waiting, "a"); got {
			t.Error("a third call to one host")
		}
		got, other := take(t.Context(), "b")
		if !got {
			t.Fatal("who waits for one host holds up the others")
		}
		if got, _ := take(waiting, "b"); got {
			t.Error("more calls altogether than the bound")
		}
		stop()
		synctest.Wait()
		first()
		second()
		got, again := take(t.Context(), "b")
		if !got {
			t.Error("a turn that was given back is lost")
		}
		other()
		again()
		if len(turns.mu.hosts) != 0 || len(turns.all) != 0 {
			t.Errorf("left: %d hosts, %d turns", len(turns.mu.hosts), len(turns.all))
		}
	})
}
