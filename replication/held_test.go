package replication

import (
	"fmt"
	"math"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// lateCore is a replica that is told later which partitions there are.
type lateCore struct {
	*Core
	live     *fleet.Live
	sessions *affinity.Resolver
}

func newLateCore(t *testing.T) *lateCore {
	t.Helper()
	live := fleet.NewLive(fleet.NewView(nil))
	sessions, err := affinity.NewResolver(live, affinity.Config{WriterID: 1})
	if err != nil {
		t.Fatal(err)
	}
	core, err := New(time.Now(), Config{Sessions: sessions, SenderID: 1, WriterID: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &lateCore{core, live, sessions}
}

// hears applies a plain peer's event of a session in a model's partition.
func (c *lateCore) hears(now time.Time, model, session string, sequence uint64) Disposition {
	rank := uint32(0)
	e := BindingEvent{ModelName: model, RoutingGroup: fleet.DefaultName, SessionID: session, WorkerID: 7, DPRank: &rank, Sequence: sequence, WriterID: 9}
	return c.Apply(now, e.partition(), &e)
}

// appears has workers for a model, and returns its sessions.
func (c *lateCore) appears(now time.Time, model string) *affinity.Table {
	c.live.Publish(fleet.NewView([]fleet.Worker{{
		ID: 7, Address: "10.0.0.7:80", Models: []string{model}, Group: fleet.DefaultName, Ranks: 1, State: fleet.Active,
	}}))
	c.Tick(now)
	table, _ := c.sessions.Table(fleet.Partition{Model: model, Group: fleet.DefaultName})
	return table
}

func bindingsOf(table *affinity.Table) (n int) {
	for b := range affinity.Buckets {
		n += table.BucketLen(uint8(b))
	}
	return n
}

// A poisoned event must not be held: no others of its session would be, and when
// the partition comes nobody would look at its clock any more.
func TestPoisonIsNotHeld(t *testing.T) {
	c := newLateCore(t)
	now := time.Now()
	if got := c.hears(now, "m", "s", math.MaxUint64); got != ClockRejected {
		t.Errorf("poison for a partition that is not here: %v, want %v", got, ClockRejected)
	}
	if got := c.hears(now, "m", "s", 5); got != Held {
		t.Errorf("the good one: %v, want %v", got, Held)
	}
	if ev, ok := c.appears(now.Add(time.Second), "m").Current("s"); !ok || ev.Sequence != 5 {
		t.Errorf("the partition has %+v, %v; want the good one", ev, ok)
	}
}

func TestNewestIsHeldForAMinute(t *testing.T) {
	for after, want := range map[time.Duration]int{59900 * time.Millisecond: 1, 60100 * time.Millisecond: 0} {
		c := newLateCore(t)
		now := time.Now()
		c.hears(now, "m", "early", 7)
		for i, got := range []Disposition{Held, Held, Stale} { // of sequences 7, 8 and 6
			if d := c.hears(now, "m", "s", []uint64{7, 8, 6}[i]); d != got {
				t.Fatalf("event %d: %v, want %v", i, d, got)
			}
		}
		for later := now.Add(time.Second); later.Before(now.Add(after)); later = later.Add(time.Second) {
			c.Tick(later)
		}
		c.hears(now.Add(30*time.Second), "m", "early", 8) // this one is not so old
		table := c.appears(now.Add(after), "m")
		if ev, ok := table.Current("s"); ok != (want == 1) || ok && ev.Sequence != 8 {
			t.Errorf("after %v the partition has %+v, %v", after, ev, ok)
		}
		if n := bindingsOf(table); n != want+1 {
			t.Errorf("after %v it has %d bindings, want %d", after, n, want+1)
		}
		if c.held.size != 0 || len(c.held.parts) != 0 || len(c.held.most) != 0 {
			t.Errorf("%d events are still held", c.held.size)
		}
	}
}

// Whoever floods partitions that are never here, one or many, leaves one that
// comes its share of what is held.
func TestFloodLeavesPartitionsTheirShare(t *testing.T) {
	for _, floods := range []int{1, 10, 2 * maxHeld} {
		for _, before := range []bool{true, false} {
			c := newLateCore(t)
			now := time.Now()
			flood := func() {
				for i := range 3 * maxHeld {
					c.hears(now, fmt.Sprint("never", i%floods), fmt.Sprint("f", i), 1)
				}
			}
			const mine = 200
			bind := func() {
				for i := range mine {
					c.hears(now, "m", fmt.Sprint("s", i), 1)
				}
			}
			if before {
				flood()
				bind()
			} else {
				bind()
				flood()
			}
			if c.held.size != maxHeld {
				t.Errorf("%d held, want %d", c.held.size, maxHeld)
			}
			share := min(mine, maxHeld/(floods+1))
			if floods > maxHeld && before {
				share = 0 // each of them has its one, and there is no room for another partition
			} else if floods > maxHeld {
				share = 1
			}
			if n := bindingsOf(c.appears(now, "m")); n < share {
				t.Errorf("%d floods, before it %v: %d sessions, want %d", floods, before, n, share)
			}
		}
	}
}
