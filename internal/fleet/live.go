package fleet

import "sync/atomic"

// Live hands out the newest View. Publish is for the one owner of the fleet;
// View and Snapshot may be called by anyone at any time and never block.
// Make one with NewLive.
type Live struct {
	state atomic.Pointer[liveState]
}

type liveState struct {
	view    *View
	changed chan struct{} // closed when view has been replaced
}

// NewLive returns a Live that shows view until the first Publish.
func NewLive(view *View) *Live {
	l := &Live{}
	l.state.Store(&liveState{view: view, changed: make(chan struct{})})
	return l
}

// View returns the newest view.
func (l *Live) View() *View { return l.state.Load().view }

// Snapshot returns the newest view and a channel that is closed as soon as that
// view is no longer the newest, so that a reader can wait without missing one:
//
//	for {
//		view, changed := live.Snapshot()
//		use(view)
//		select {
//		case <-changed:
//		case <-ctx.Done():
//			return
//		}
//	}
func (l *Live) Snapshot() (view *View, changed <-chan struct{}) {
	s := l.state.Load()
	return s.view, s.changed
}

// Publish makes view the newest and wakes those who wait for a change.
func (l *Live) Publish(view *View) {
	old := l.state.Swap(&liveState{view: view, changed: make(chan struct{})})
	close(old.changed)
}
