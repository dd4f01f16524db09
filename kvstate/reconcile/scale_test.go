package reconcile

import (
	"fmt"
	"testing"
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

const manyOwners = 10_000

// readyOwners returns a core with so many owners, each ready on a worker of its
// own, and the controller that projects them.
func readyOwners(tb testing.TB, n int) (*core, *kvstate.Controller, time.Time) {
	now := time.Unix(1000, 0)
	workers := make([]fleet.Worker, n)
	for i := range workers {
		workers[i] = testWorker(fleet.WorkerID(i + 1))
	}
	c := newCore(fleet.NewView(workers), 1000*time.Hour, time.Minute)
	u := update{watch: directoryWatch, whole: true}
	for i := range uint64(n) {
		s, a := manyth(i + 1)
		u.changes = append(u.changes, change{kvstate.SourceTopic, i + 1, s},
			change{kvstate.AttachmentTopic, kvstate.AttachmentRecordID(i+1, 1), a})
	}
	c.update(u)
	controller := kvstate.NewController()
	for {
		fx, _ := c.settle(now)
		for _, v := range fx.verdicts {
			controller.Update(v.now)
		}
		for _, r := range fx.restores {
			c.restored(now, r.call, nil)
		}
		for _, q := range fx.calls {
			c.answered(now, q.id, wellAnswered(c, &q), nil)
		}
		if len(fx.calls)+len(fx.restores) == 0 {
			break
		}
	}
	if got := controller.Projection().Len(); got != n {
		tb.Fatalf("%d owners projected, want %d", got, n)
	}
	return c, controller, now
}

func manyth(pub uint64) (kvstate.SourceAdvertisement, kvstate.AttachmentAdvertisement) {
	s, a := sourceRecord(pub), attachmentRecord(pub, 1)
	s.CacheOwnerID = kvstate.CacheOwnerID{Slot: kvstate.DefaultStableDPSlot(fmt.Sprint(pub))}
	a.CacheOwnerID, a.Worker = s.CacheOwnerID, kvstate.Worker{WorkerID: pub}
	return s, a
}

func wellAnswered(c *core, q *call) kvstate.QueryResponse {
	a, _ := sole(c.owners[q.owner].attachments)
	if q.question == askStatus {
		return kvstate.QueryResponse{Status: &kvstate.AgentStatus{
			Identity: q.request.Kind.Expected, CacheOwnerReady: true, OutboundCursor: 1,
			Attachment: &kvstate.AttachmentStatus{Generation: a.AttachmentGeneration, Worker: a.Worker, Ready: true, ReadyAtOutboundCursor: 1},
		}}
	}
	return kvstate.QueryResponse{StateAgentRecovery: &kvstate.StateAgentRecoveryReply{
		Response: kvstate.QueryResponse{TreeDump: &kvstate.TreeDumpReply{LastEventID: 1}},
		Receipt: kvstate.RecoveryReceipt{Identity: q.request.Kind.Expected,
			AttachmentGeneration: q.request.Kind.ExpectedAttachmentGeneration, RecoveredThroughCursor: 1},
	}}
}

func TestOneChangeIsOneResolution(t *testing.T) {
	c, controller, now := readyOwners(t, manyOwners)
	changes := []struct {
		name      string
		make      func()
		projected int
	}{
		{"a detachment", func() {
			c.update(update{watch: directoryWatch, changes: []change{{kvstate.AttachmentTopic, kvstate.AttachmentRecordID(5, 1), nil}}})
		}, manyOwners - 1},
		{"a worker that becomes unhealthy", func() {
			all := make([]fleet.Worker, manyOwners)
			for i := range all {
				all[i] = testWorker(fleet.WorkerID(i + 1))
			}
			all[6].State = fleet.Unhealthy
			c.see(fleet.NewView(all))
		}, manyOwners - 2},
		{"a status that does not come", func() {
			c.owners[mustSource(8).CacheOwnerID].talk.statusAt = now
			c.touch(c.owners[mustSource(8).CacheOwnerID])
			fx, _ := c.settle(now)
			c.answered(now, fx.calls[0].id, kvstate.QueryResponse{Error: new(string)}, nil)
		}, manyOwners - 3},
	}
	for _, change := range changes {
		change.make()
		fx, _ := c.settle(now)
		for _, v := range fx.verdicts {
			controller.Update(v.now)
		}
		if fx.resolves != 1 || controller.Projection().Len() != change.projected {
			t.Errorf("%s: %d resolutions, want 1; %d projected, want %d", change.name, fx.resolves, controller.Projection().Len(), change.projected)
		}
	}
}

func mustSource(pub uint64) kvstate.SourceAdvertisement {
	s, _ := manyth(pub)
	return s
}

// BenchmarkOneChangeAmongMany detaches and re-attaches one of 10,000 ready owners:
// from the record to the swapped projection, twice.
func BenchmarkOneChangeAmongMany(b *testing.B) {
	c, controller, now := readyOwners(b, manyOwners)
	s, a := manyth(5)
	record := kvstate.AttachmentRecordID(5, 1)
	publish := func() {
		now = now.Add(shortestPause) // a status from before the attachment is out
		fx, _ := c.settle(now)
		for _, v := range fx.verdicts {
			controller.Update(v.now)
		}
		for _, q := range fx.calls {
			c.answered(now, q.id, wellAnswered(c, &q), nil)
		}
		for _, r := range fx.restores {
			c.restored(now, r.call, nil)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		c.update(update{watch: directoryWatch, changes: []change{{kvstate.AttachmentTopic, record, nil}}})
		publish()
		c.update(update{watch: directoryWatch, changes: []change{{kvstate.AttachmentTopic, record, a}}})
		for c.owners[s.CacheOwnerID].resolution.State != kvstate.Ready {
			publish()
		}
	}
}

// BenchmarkUnhealthyWorkerAmongMany changes the view so that one of 10,000 owners
// is not projected, and back.
func BenchmarkUnhealthyWorkerAmongMany(b *testing.B) {
	c, controller, now := readyOwners(b, manyOwners)
	views := make([]*fleet.View, 2)
	for v := range views {
		all := make([]fleet.Worker, manyOwners)
		for i := range all {
			all[i] = testWorker(fleet.WorkerID(i + 1))
		}
		if v == 1 {
			all[6].State = fleet.Unhealthy
		}
		views[v] = fleet.NewView(all)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.see(views[(i+1)%2])
		fx, _ := c.settle(now)
		for _, v := range fx.verdicts {
			controller.Update(v.now)
		}
	}
}

// BenchmarkLiveEvents takes live batches of one event with 16 blocks for one of
// 10,000 ready owners into the index. One operation is one batch.
func BenchmarkLiveEvents(b *testing.B) {
	c, controller, now := readyOwners(b, manyOwners)
	set := index.NewSet(index.Config{})
	s, a := manyth(5)
	o := c.owners[s.CacheOwnerID]
	set.Open(o.held.partition)
	event := stored(kvstate.WorkerDomain, kvstate.Device, make([]uint64, 16)...)
	event.WorkerID = a.Worker.WorkerID
	b.ReportAllocs()
	for next := uint64(2); b.Loop(); next++ {
		event.EventID = next
		event.Store.Blocks = make([]kvstate.Block, 16)
		for i := range event.Store.Blocks {
			hash := next%4096*16 + uint64(i)
			event.Store.Blocks[i] = kvstate.Block{External: hash, Local: hash}
		}
		c.heard(now, s.CacheOwnerID, o.talk.stream, []kvstate.RouterEvent{event})
		fx, _ := c.settle(now)
		for _, v := range fx.verdicts {
			controller.Update(v.now)
		}
		for _, e := range fx.edits {
			ix, _ := set.Partition(e.partition)
			e.perform(ix)
		}
	}
}

// BenchmarkOwners reports on 10,000 owners.
func BenchmarkOwners(b *testing.B) {
	c, controller, _ := readyOwners(b, manyOwners)
	r, err := New(Config{Live: fleet.NewLive(c.view), Index: index.NewSet(index.Config{}), Controller: controller})
	if err != nil {
		b.Fatal(err)
	}
	r.mu.core = c
	b.ReportAllocs()
	for b.Loop() {
		if len(r.Owners()) != manyOwners {
			b.Fatal("some are missing")
		}
	}
}
