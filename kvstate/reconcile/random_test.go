package reconcile

import (
	"math/rand/v2"
	"slices"
	"testing"

	"mooring/internal/fleet"
	"mooring/kvstate"
)

// TestRandomHistories feeds the core arbitrary histories. After every input, what
// is published is what Resolve says now of every owner, touched or not; and when
// all is withdrawn, nothing is left anywhere.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(t, seed)
		for range 200 {
			w.act()
		}
		w.mend()
		w.end()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzHistories is TestRandomHistories with the choices of the fuzzer.
func FuzzHistories(f *testing.F) {
	f.Add([]byte("a source, an attachment and what follows"))
	f.Fuzz(func(t *testing.T, choices []byte) {
		w := newWorld(t, 0)
		for _, c := range choices[:min(len(choices), 400)] {
			w.rand = rand.New(rand.NewPCG(uint64(c), uint64(len(w.history))))
			w.act()
		}
		w.mend()
		w.end()
	})
}

func (w *world) settle() {
	fx, next := w.core.settle(w.now)
	for _, v := range fx.verdicts {
		w.controller.Update(v.now)
	}
	for _, e := range fx.edits {
		if ix, ok := w.set.Partition(e.partition); ok {
			e.perform(ix)
		}
	}
	for _, p := range fx.unused {
		w.set.Drop(p)
	}
	w.restores = append(w.restores, fx.restores...)
	for _, id := range fx.hangUps {
		delete(w.calls, id)
	}
	for _, q := range fx.calls {
		w.calls[q.id] = q
	}
	for _, s := range fx.streams {
		w.streams[s.owner] = s.id
	}
	if !next.IsZero() && !next.After(w.now) {
		w.fail("settle is due again at once: %v", next.Sub(w.now))
	}
	w.check()
	w.checkIndex()
}

// check compares what is published with what Resolve says of every owner now, and
// that nobody waits for a call that was not made.
func (w *world) check() {
	p := w.controller.Projection()
	projected := 0
	for id, o := range w.core.owners {
		want := kvstate.Resolve(w.core.inputs(o))
		got, holed, ok := p.Worker(id.Key())
		if ok {
			projected++
		}
		if ok != (want.State == kvstate.Ready) || ok && (got != want.Worker || holed != want.Holed) {
			w.fail("owner %s: projected %v to %v holed %v, but Resolve says %+v", letter(id), ok, got, holed, want)
		}
		if want.State != o.resolution.State || want.Reason != o.resolution.Reason || !slices.Equal(want.Reasons, o.resolution.Reasons) {
			w.fail("owner %s: published %+v, but Resolve says %+v", letter(id), o.resolution, want)
		}
		for _, call := range []uint64{o.talk.status, o.talk.recovery} {
			if _, out := w.calls[call]; call != 0 && !out {
				w.fail("owner %s waits for call %d, which is not out", letter(id), call)
			}
		}
		if o.talk.doubt && o.talk.recovery != 0 && o.talk.question == askRange {
			w.fail("owner %s waits for events that must not be applied", letter(id))
		}
		if a, _ := sole(o.attachments); want.State == kvstate.Ready && !o.fed && !o.held.follows(o.agent.identity.PublisherID, &a, o.held.partition) {
			w.fail("owner %s is projected to %s, but holds the state of %+v", letter(id), got, o.held)
		}
		if want.State == kvstate.Ready && !o.fed && !o.talk.doubt && !w.core.written(got) {
			w.fail("owner %s is projected to %s without doubt, but nobody writes its own blocks", letter(id), got)
		}
	}
	if p.Len() != projected {
		w.fail("%d owners projected, %d known", p.Len(), projected)
	}
}

// checkIndex finds that blocks are only where the core knows of them.
func (w *world) checkIndex() {
	if len(w.restores) > 0 {
		return
	}
	for worker, filler := range w.core.fillers {
		if !filler.held.engine || filler.held.worker != worker {
			w.fail("owner %s fills worker %s, but holds %+v", letter(filler.id), worker, filler.held)
		}
	}
	for _, p := range []fleet.Partition{testPartition, {Model: "other", Group: "g"}} {
		ix, ok := w.set.Partition(p)
		for at := range uint64(2) {
			worker := kvstate.Worker{WorkerID: at + 1}
			filler := w.core.fillers[worker]
			if ok && (filler == nil || filler.held.partition != p) && ix.Blocks(engineBlocks(worker)) > 0 {
				w.fail("%s has blocks of worker %s, which nobody fills", p, worker)
			}
		}
		for name := range byte(3) {
			id := testOwner('A' + name)
			o := w.core.owners[id]
			if ok && (o == nil || !o.held.any || o.held.partition != p) && ix.Blocks(ownBlocks(id)) > 0 {
				w.fail("%s has blocks of owner %s, which holds nothing there", p, letter(id))
			}
		}
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf(format, args...)
	w.t.Fatalf("history: %q", w.history)
}

// mend makes all go well for one publisher of each owner, and finds them ready.
func (w *world) mend() {
	for pub := uint64(1); pub < 6; pub += 2 {
		w.cursors[pub] += 3 // past all barriers
		for range 4 {
			w.calm(pub, 1, kvstate.Worker{WorkerID: 1})
			w.restored(true)
			w.now = w.now.Add(longestPause)
		}
		if o := w.core.owners[ownerOf(pub)]; o.resolution.State != kvstate.Ready || o.hasHoles() {
			w.fail("owner %s does not become ready: %+v, holds %+v, talk %+v", letter(o.id), o.resolution, o.held, o.talk)
		}
	}
}

// end withdraws everything, and finds nothing left.
func (w *world) end() {
	for id, feeding := range w.feeding {
		if feeding {
			w.core.feedStops(id)
			w.core.feedEnded(id)
		}
	}
	clear(w.told)
	w.back()
	w.settle()
	w.restored(true)
	w.settle()
	c := w.core
	next, due := c.agenda.Next()
	if due || len(c.owners)+len(c.on)+len(c.fillers)+len(c.users)+len(c.calls)+len(w.calls) > 0 {
		w.fail("left: %d owners, %d workers, %d fillers, %d partitions, %d calls, an owner due at %v, %d calls out",
			len(c.owners), len(c.on), len(c.fillers), len(c.users), len(c.calls), next, len(w.calls))
	}
	for _, p := range []fleet.Partition{testPartition, {Model: "other", Group: "g"}} {
		if _, ok := w.set.Partition(p); ok {
			w.fail("the index of %s is left", p)
		}
	}
}
