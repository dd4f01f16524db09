package affinity

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
)

// unpinned is an operator's order at another replica.
func unpinned(session string, sequence uint64, life time.Duration) Event {
	return Event{Kind: EventUnpinned, Session: session, Sequence: sequence, WriterID: 9, Life: life}
}

func TestFloodOfUnpinsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{MaxSessions: 10})
		for i := range 100 {
			if full := i >= 10; table.AtFloorLimit() != full {
				t.Fatalf("after %d floors at the limit: %v, want %v", i, !full, full)
			}
			wantApplied(t, table, unpinned(fmt.Sprint("s", i), 100, time.Duration(i+1)*time.Minute), Inserted)
		}
		if n := len(records(table)); n != 10 {
			t.Errorf("%d floors are kept, want 10", n)
		}
		time.Sleep(91 * time.Minute) // the last ten end after 91 min to 100 min
		table.Digest()
		if table.AtFloorLimit() {
			t.Error("a floor has ended and there is still no room")
		}
	})
}

// neverSent has the first request of a new session end without having reached
// its worker.
func neverSent(t *testing.T, table *Table, session string) {
	t.Helper()
	bindTo(t, table, session, fleet.OnRank(1, 0)).Release(NeverSent)
}

func TestOutageOfWorkersPushesOutNoUnpin(t *testing.T) {
	for _, ttl := range []time.Duration{time.Minute, 1000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var told []Event
			here, _ := newTestTable(t, Config{TTL: ttl, MaxSessions: 100, Publish: func(_ fleet.Partition, ev Event) { told = append(told, ev) }})
			peer, _ := newTestTable(t, Config{TTL: ttl, MaxSessions: 100})
			old := fromReplica(fleet.OnRank(1, 0), 5, 9, 48*time.Hour)
			here.Apply(old)
			here.Unpin("s")
			for i := range 1000 {
				neverSent(t, here, fmt.Sprint("n", i))
			}
			for _, ev := range told {
				peer.Apply(ev)
			}
			time.Sleep(min(ttl, time.Hour))
			for _, table := range []*Table{here, peer} {
				wantApplied(t, table, old, Floored)
				if n := len(records(table)); n != 1 {
					t.Errorf("TTL %v: %d records are left, want the unpin alone", ttl, n)
				}
			}
		})
	}
}

// A floor in whose place another one comes counts for as long as it was to.
func TestShortFloorShortensNoUnpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Event
		cfg := Config{TTL: time.Minute, WriterID: 1, Publish: func(_ fleet.Partition, ev Event) { told = append(told, ev) }}
		knows, _ := newTestTable(t, cfg)
		hears, _ := newTestTable(t, Config{})
		old := fromReplica(fleet.OnRank(1, 0), 5, 9, 48*time.Hour)
		knows.Unpin("s")
		unpin := told[0]
		time.Sleep(time.Hour)
		neverSent(t, knows, "s")
		if last := told[len(told)-1]; last.Kind != EventUnpinned || last.Life != FloorLife-time.Hour {
			t.Errorf("published %+v; want what the unpin has left", last)
		}

		cfg.Publish = func(_ fleet.Partition, ev Event) { told = append(told, ev) }
		learns, _ := newTestTable(t, cfg) // of the unpin, afterwards
		neverSent(t, learns, "s")
		short := told[len(told)-1]
		if short.Life != time.Minute {
			t.Errorf("published %+v; want a life of one TTL", short)
		}
		unpin.Life -= time.Hour
		wantApplied(t, learns, unpin, Stale)
		wantApplied(t, hears, unpin, Inserted)
		wantApplied(t, hears, short, Replaced)
		for _, table := range []*Table{knows, learns, hears} {
			time.Sleep(time.Hour)
			wantApplied(t, table, old, Floored)
		}
		time.Sleep(FloorLife - 4*time.Hour)
		for _, table := range []*Table{knows, learns, hears} {
			wantApplied(t, table, old, Inserted)
		}
	})
}

func TestFloorEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{})
		old := fromReplica(fleet.OnRank(1, 0), 5, 9, time.Hour)
		wantApplied(t, table, unpinned("s", 6, time.Minute), Inserted)
		time.Sleep(time.Minute - 1)
		wantApplied(t, table, old, Floored)
		time.Sleep(time.Nanosecond)
		// Nothing has swept it. What comes later merges as if it had never been.
		if n := len(records(table)); n != 0 {
			t.Errorf("%d records are told after their end", n)
		}
		wantApplied(t, table, old, Inserted)
		wantApplied(t, table, unpinned("s", 3, time.Minute), Inserted)
	})
}

// Whatever a peer says, no floor lives longer than one that is made here.
func TestFloorLivesADayAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{})
		for _, want := range []Applied{Inserted, Refreshed} {
			wantApplied(t, table, unpinned("s", 6, 1000*time.Hour), want)
			if r := records(table); len(r) != 1 || r[0].Life != FloorLife {
				t.Errorf("holds %+v, want one floor of %v", r, FloorLife)
			}
		}
	})
}
