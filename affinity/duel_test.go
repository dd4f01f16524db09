package affinity

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mooring/internal/fleet"
)

// dumpTable prints a table as naive.dump does.
func dumpTable(t *Table, now instant) string {
	lines := []string{}
	for i := range t.shards {
		for name, e := range t.shards[i].mu.entries {
			s := e.state
			if s.settle(now); s.empty() {
				continue
			}
			line := name + ":"
			if s.bound() {
				line += fmt.Sprintf(" %v seq=%d leases=%d life=%v", s.target, s.version.sequence, s.leases, timeLeft(s.deadline, now))
			}
			if s.turn != nil {
				line += fmt.Sprintf(" turn=%v", timeLeft(s.turn.deadline, now))
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return fmt.Sprint(lines)
}

// TestAnyInterleavingMatchesTheNaiveTable runs random operations on the table
// and on the naive one; after each, all entries must be the same, and in the end
// nothing may be left.
func TestAnyInterleavingMatchesTheNaiveTable(t *testing.T) {
	for seed := range uint64(120) {
		cfg := Config{
			TTL: 10 * time.Second, InitTimeout: 3 * time.Second, MaxSessions: 4,
			Mode: Mode(seed % 2), WhenGone: WhenGone(seed / 2 % 3),
			WallNow: func() time.Time { return time.Unix(0, 0) },
		}
		t.Run(fmt.Sprintf("seed=%d/%v/%v", seed, cfg.Mode, cfg.WhenGone), func(t *testing.T) {
			d := &duel{rng: rand.New(rand.NewPCG(seed, 1))}
			d.table, d.live = newCrowdedTable(t, cfg)
			d.naive = &naive{cfg: cfg, active: map[fleet.WorkerID]bool{1: true, 2: true, 3: true}, sessions: make(map[string]*naiveSession)}
			for range 400 {
				d.step(t)
			}
			d.finish(t)
		})
	}
}

// duel drives both implementations alike.
type duel struct {
	rng    *rand.Rand
	table  *Table
	live   *fleet.Live
	naive  *naive
	now    instant
	pairs  []pair
	trail  []string
	newest map[string]uint64 // the highest sequence seen of each session
}

type pair struct {
	lease   *Lease
	request *naiveRequest
}

func (d *duel) step(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	name := names[d.rng.IntN(len(names))]
	to := []fleet.Target{
		fleet.WorkerOnly(1), fleet.OnRank(1, 0), fleet.OnRank(1, 1), fleet.WorkerOnly(2), fleet.OnRank(2, 0), fleet.OnRank(3, 0),
	}[d.rng.IntN(6)]
	switch op := d.rng.IntN(100); {
	case op < 40:
		wants := fleet.Target{}
		if d.rng.IntN(4) == 0 {
			wants = to
		}
		d.acquire(t, name, wants)
	case op < 60:
		d.withPair(t, func(p pair) (string, string) { return d.bind(p, to), d.naive.bind(p.request, to) }, "bind to "+to.String())
	case op < 78:
		o := []Outcome{Completed, UpstreamFailed, NeverSent}[d.rng.IntN(3)]
		d.withPair(t, func(p pair) (string, string) {
			d.release(p.lease, o)
			d.naive.release(p.request, o)
			return "", ""
		}, "release "+o.String())
	case op < 86:
		by := []time.Duration{1, time.Second, 3 * time.Second, 10 * time.Second}[d.rng.IntN(4)]
		d.now += instant(by)
		d.naive.now += by
		d.same(t, "advance "+by.String(), "", "")
	case op < 92:
		d.fleet(t)
	case op < 95:
		d.table.sweep(d.now)
		d.same(t, "sweep", "", "")
	case op < 98:
		d.same(t, fmt.Sprintf("pin %s to %v", name, to), d.pin(name, to), d.naive.pin(name, to))
	default:
		d.same(t, "unpin "+name, d.unpin(name), d.naive.unpin(name))
	}
}

// same compares the answers to an operation, and then everything.
func (d *duel) same(t *testing.T, op, got, want string) {
	t.Helper()
	d.trail = append(d.trail, op+" -> "+want)
	tableState, naiveState := dumpTable(d.table, d.now), d.naive.dump()
	if got != want || tableState != naiveState {
		t.Fatalf("after %s\ntable: %s %s\nnaive: %s %s\ntrail: %q", op, got, tableState, want, naiveState, d.trail[max(0, len(d.trail)-25):])
	}
	d.checkCounts(t)
	d.checkVersions(t)
}

func (d *duel) checkCounts(t *testing.T) {
	t.Helper()
	var entries, bound, leases int
	for i := range d.table.shards {
		mu := &d.table.shards[i].mu
		entries += len(mu.entries)
		for _, e := range mu.entries {
			leases += int(e.leases)
			if e.bound() {
				bound++
			}
			if mu.due[e.pos].entry != e || mu.due[e.pos].due > e.due(d.now, &d.table.rules) {
				t.Fatalf("%s is filed wrongly in the heap", e.session)
			}
		}
		if len(mu.due) != len(mu.entries) {
			t.Fatalf("%d deadlines for %d entries", len(mu.due), len(mu.entries))
		}
	}
	if b, l := d.table.counts(); b != bound || l != leases || int(d.table.entries.Load()) != entries {
		t.Fatalf("counted %d entries, %d bindings, %d leases; there are %d, %d, %d", d.table.entries.Load(), b, l, entries, bound, leases)
	}
}

func (d *duel) checkVersions(t *testing.T) {
	t.Helper()
	if d.newest == nil {
		d.newest = make(map[string]uint64)
	}
	for i := range d.table.shards {
		for name, e := range d.table.shards[i].mu.entries {
			if e.bound() && e.version.sequence < d.newest[name] {
				t.Fatalf("the version of %s went back from %d to %d", name, d.newest[name], e.version.sequence)
			}
			d.newest[name] = max(d.newest[name], e.version.sequence)
		}
	}
}

func (d *duel) acquire(t *testing.T, name string, wants fleet.Target) {
	r := &naiveRequest{session: name, wants: wants}
	a := d.table.tryAcquire(d.now, name, wants)
	if a.full {
		d.table.sweepSome(d.now)
		a = d.table.tryAcquire(d.now, name, wants)
	}
	got := "full"
	if !a.full {
		got = [...]string{
			foundBinding: "bound", foundNothing: "choose", foundGone: "choose moved", foundTurn: "wait",
			refusedGone: "gone", refusedTarget: "gone", refusedOther: "conflict",
		}[a.finding]
	}
	lease := a.lease
	d.same(t, fmt.Sprintf("acquire %s wants %v", name, wants), got, d.naive.acquire(r))
	if lease.phase != phaseOver {
		d.pairs = append(d.pairs, pair{&lease, r})
	}
}

func (d *duel) withPair(t *testing.T, f func(pair) (got, want string), op string) {
	if len(d.pairs) == 0 {
		return
	}
	p := d.pairs[d.rng.IntN(len(d.pairs))]
	got, want := f(p)
	d.same(t, p.request.session+" "+op, got, want)
}

func (d *duel) bind(p pair, to fleet.Target) string {
	if p.lease.phase == phaseOver {
		return "lost"
	}
	fx, err := p.lease.bind(d.now, d.table.wallNow(), to)
	d.table.perform(&fx)
	switch err {
	case nil:
		return "ok"
	case ErrConflict:
		return "conflict"
	case ErrWorkerGone:
		return "gone"
	case ErrInitialiserLost:
		return "lost"
	default:
		return err.Error()
	}
}

func (d *duel) release(l *Lease, o Outcome) {
	if l.phase != phaseOver {
		fx := l.release(d.now, d.table.wallNow(), o)
		d.table.perform(&fx)
	}
}

func (d *duel) pin(name string, to fleet.Target) string {
	_, fx, err := d.table.pin(name, to, d.now, d.table.wallNow(), d.table.alive())
	if err == ErrFull && d.table.sweepSome(d.now) {
		_, fx, err = d.table.pin(name, to, d.now, d.table.wallNow(), d.table.alive())
	}
	d.table.perform(&fx)
	if err != nil {
		return "full"
	}
	return "ok"
}

func (d *duel) unpin(name string) string {
	fx := d.table.unpin(name, d.now, d.table.wallNow())
	d.table.perform(&fx)
	if fx.unpinned > 0 {
		return "ok"
	}
	return "absent"
}

// fleet changes who is schedulable.
func (d *duel) fleet(t *testing.T) {
	states := make([]fleet.State, 3)
	for i := range states {
		states[i] = fleet.States[min(d.rng.IntN(6), 3)]
		if d.rng.IntN(2) == 0 {
			states[i] = fleet.Active
		}
		d.naive.active[fleet.WorkerID(i+1)] = states[i] == fleet.Active
	}
	d.live.Publish(fleetOf(states...))
	d.same(t, fmt.Sprint("fleet ", states), "", "")
}

// finish releases everything and lets all bindings expire.
func (d *duel) finish(t *testing.T) {
	slices.SortFunc(d.pairs, func(a, b pair) int { return cmp.Compare(a.request.session, b.request.session) })
	for _, p := range d.pairs {
		d.release(p.lease, Completed)
	}
	d.table.sweep(d.now + instant(d.table.rules.ttl+d.table.rules.initTimeout))
	bindings, leases := d.table.counts()
	if n := d.table.entries.Load(); n != 0 || bindings != 0 || leases != 0 {
		t.Errorf("left over: %d entries, %d bindings, %d leases", n, bindings, leases)
	}
}
