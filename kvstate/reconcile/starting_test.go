package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// Nobody waits for ever for an agent that does not answer.
func TestStartIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Config{Live: fleet.NewLive(fleet.NewView(nil)), Index: index.NewSet(index.Config{}), Controller: kvstate.NewController()})
		if err != nil {
			t.Fatal(err)
		}
		r.mu.core.owner(testOwner(1)).talk.status = r.mu.core.nextID() // asked, and never answered
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		began := time.Now()
		<-r.Settled()
		if took := time.Since(began); took != settleLimit {
			t.Errorf("the start took %v, want %v", took, settleLimit)
		}
		cancel()
		<-ended
	})
}
