package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/feed"
)

// feedSpec is one rank of a live worker that publishes KV events, as configured.
type feedSpec struct {
	worker    kvstate.Worker
	owner     kvstate.CacheOwnerID
	partition fleet.Partition
	name      string
	endpoint  string // of rank 0
	replay    string
	blockSize int
}

// at returns where the rank's events are, for messages.
func (s *feedSpec) at() string {
	endpoint, err := rankEndpoint(s.endpoint, s.worker.DPRank)
	if err != nil {
		return s.endpoint
	}
	return endpoint
}

// wantedFeeds returns the feeds that a view asks for. Workers keep theirs while
// they are listed, in whatever state.
func wantedFeeds(view *fleet.View, blockSize int) map[kvstate.Worker]feedSpec {
	want := make(map[kvstate.Worker]feedSpec)
	for _, w := range view.Workers() {
		if w.KVEvents == "" {
			continue
		}
		size := w.BlockSize
		if size == 0 {
			size = blockSize
		}
		for rank := range w.Ranks {
			at := kvstate.Worker{WorkerID: uint64(w.ID), DPRank: rank}
			want[at] = feedSpec{
				worker: at, owner: configuredOwner(w, rank, size), partition: w.Home(), name: w.Name,
				endpoint: w.KVEvents, replay: w.KVReplay, blockSize: size,
			}
		}
	}
	return want
}

// runningFeed is a feed that was started.
type runningFeed struct {
	spec     feedSpec
	stop     context.CancelFunc
	stopping bool
}

// feeds keeps one feed for each wanted spec. One that is wanted otherwise is
// stopped, and started anew when it has ended. Owned by the reconciler's loop.
type feeds struct {
	want    map[kvstate.Worker]feedSpec
	running map[kvstate.Worker]*runningFeed
	dirty   bool   // arrange has something to do
	lastID  uint64 // publisher id of the feed that was started last
}

// arrange tells the core of the feeds that stop and start now, and returns them.
func (f *feeds) arrange(c *core) (start, stop []*runningFeed) {
	f.dirty = false
	for at, r := range f.running {
		if r.spec != f.want[at] && !r.stopping {
			r.stopping = true
			c.feedStops(r.spec.owner)
			stop = append(stop, r)
		}
	}
	for at, spec := range f.want {
		if f.running[at] == nil && c.feedStarts(spec.owner, at, spec.partition) {
			f.running[at] = &runningFeed{spec: spec}
			start = append(start, f.running[at])
		}
	}
	return start, stop
}

// ended makes room for another feed of that worker.
func (f *feeds) ended(c *core, spec feedSpec) {
	delete(f.running, spec.worker)
	f.dirty = true
	c.feedEnded(spec.owner)
}

// startFeed starts a feed, which ends when its stop is called or ctx ends.
func (r *Reconciler) startFeed(ctx context.Context, rf *runningFeed) {
	r.feeds.lastID++
	publisher, spec := r.feeds.lastID, rf.spec
	feeding, stop := context.WithCancel(ctx)
	rf.stop = stop
	r.tasks.Go(func() {
		defer stop()
		r.runFeed(feeding, ctx, spec, publisher)
		r.send(ctx, func(c *core) { r.feeds.ended(c, spec) })
	})
}

// runFeed runs a feed until feeding ends, and tells the core what it says. One that
// cannot be made says why, and does nothing.
func (r *Reconciler) runFeed(feeding, ctx context.Context, spec feedSpec, publisher uint64) {
	changed := make(chan struct{}, 1)
	f, err := r.newFeed(spec, publisher, func() {
		select {
		case changed <- struct{}{}:
		default: // it is told already, and will look once more
		}
	})
	if err != nil {
		r.send(ctx, func(c *core) { c.feedSays(spec.owner, testimony{problem: err}) })
		<-feeding.Done()
		return
	}
	defer f.Forget()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = f.Run(feeding) }) // its only error is that feeding ended
	for {
		t := testimonyOf(f, &spec)
		r.send(feeding, func(c *core) { c.feedSays(spec.owner, t) })
		select {
		case <-changed:
		case <-feeding.Done():
			return
		}
	}
}

func (r *Reconciler) newFeed(spec feedSpec, publisher uint64, changed func()) (*feed.Feed, error) {
	endpoint, err := rankEndpoint(spec.endpoint, spec.worker.DPRank)
	if err != nil {
		return nil, fmt.Errorf("kv_events: %w", err)
	}
	replay, err := rankEndpoint(spec.replay, spec.worker.DPRank)
	if err != nil {
		return nil, fmt.Errorf("kv_replay: %w", err)
	}
	id := workerID(spec.worker)
	return feed.New(feed.Config{
		Endpoint: endpoint, Replay: replay, Worker: spec.worker, Owner: spec.owner, Index: r.cfg.Index.Open(spec.partition),
		Address:   func() netip.AddrPort { return addressOf(r.cfg.Live.View(), id) },
		Neighbour: func(at netip.AddrPort) bool { return neighbourOf(r.cfg.Live.View(), id, at) },
		BlockSize: spec.blockSize, PublisherID: publisher, KVStateEndpoint: configuredEndpoint(spec.partition),
		Replays: r.replays, Changed: changed, Name: spec.name, Metrics: r.feedMetrics, Logger: r.cfg.Logger,
	})
}

// testimonyOf asks a feed for all that is known of its owner.
func testimonyOf(f *feed.Feed, spec *feedSpec) testimony {
	details, source := f.Details(), f.Source()
	t := testimony{source: &source, holed: details.Holed, opening: !details.Settled}
	t.cursor = func() uint64 {
		receipt, _ := f.Receipt()
		return receipt.RecoveredThroughCursor
	}
	if a, ok := f.Attachment(); ok {
		t.attachment = &a
	}
	if receipt, ok := f.Receipt(); ok {
		t.receipt = &receipt
	}
	status, err := f.Status()
	if err == nil {
		t.status = &status
	}
	if details.BlockSizeError != "" {
		err = fmt.Errorf("%w: %s", errBlockSize, details.BlockSizeError)
	}
	if details.PublisherError != "" {
		err = errors.New(details.PublisherError)
	}
	if err != nil {
		t.problem = fmt.Errorf("worker %s, rank %d, events at %s: %w", spec.name, spec.worker.DPRank, spec.at(), err)
	}
	return t
}
