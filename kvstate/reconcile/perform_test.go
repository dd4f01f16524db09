package reconcile

import (
	"context"
	"testing"
	"testing/synctest"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// Two states go into the index at once; a third waits, and gives up when nobody
// waits for it any more.
func TestRestoresWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := index.NewSet(index.Config{})
		r, err := New(Config{Live: fleet.NewLive(fleet.NewView(nil)), Index: set, Controller: kvstate.NewController()})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			select {
			case r.restoring <- struct{}{}:
			default:
				t.Fatal("fewer than two at once")
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.restore(ctx, &restore{edit: edit{partition: testPartition}, blockSize: 16})
		}()
		synctest.Wait()
		if _, open := set.Partition(testPartition); open {
			t.Error("a third state went into the index")
		}
		cancel()
		<-ended
	})
}
