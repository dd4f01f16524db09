package affinity

import (
	"cmp"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
)

// minted binds a new session and returns how far above the wall clock its
// sequence is.
func minted(t *testing.T, table *Table, session string) time.Duration {
	t.Helper()
	bindTo(t, table, session, fleet.OnRank(1, 0)).Release(Completed)
	e, _ := table.Lookup(session)
	return time.Until(time.Unix(0, int64(e.Sequence)))
}

// heard tells the table of a binding that was made ahead of the wall clock.
func heard(t *testing.T, table *Table, session string, ahead time.Duration) {
	t.Helper()
	ev := Event{Session: session, Target: fleet.OnRank(2, 0), Sequence: uint64(time.Now().Add(ahead).UnixNano()), WriterID: 9, Life: time.Hour}
	wantApplied(t, table, ev, Inserted)
}

func TestSlowReplicaMintsAboveWhatItHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{})
		heard(t, table, "other", 10*time.Minute)
		if ahead := minted(t, table, "fresh"); ahead <= 10*time.Minute || ahead > 10*time.Minute+time.Second {
			t.Errorf("minted %v above the wall clock; want it just above what was heard", ahead)
		}
		table.Apply(unpinned("gone", uint64(time.Now().Add(20*time.Minute).UnixNano()), time.Hour))
		if ahead := minted(t, table, "fresher"); ahead <= 20*time.Minute {
			t.Errorf("minted %v above the wall clock, below an unpin that was heard", ahead)
		}
	})
}

// What is minted after a sequence at the limit of what is accepted must be
// accepted by a replica whose clock is behind by half of the skew.
func TestClockFollowsByHalfOfTheSkew(t *testing.T) {
	for skew, lead := range map[time.Duration]time.Duration{
		0:                30 * time.Minute, // the default of 1 h
		time.Second:      time.Second / 2,
		10 * time.Minute: 5 * time.Minute,
		time.Hour:        30 * time.Minute,
		24 * time.Hour:   30 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			table, _ := newTestTable(t, Config{MaxClockSkew: skew})
			heard(t, table, "other", cmp.Or(skew, time.Hour))
			if ahead := minted(t, table, "fresh"); ahead != lead+1 {
				t.Errorf("skew %v: minted %v above the wall clock, want %v and 1 ns", skew, ahead, lead)
			}
		})
	}
}

// A session whose version is further ahead stays so, and takes no other along.
func TestSessionFarAheadTakesNoOtherAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{})
		for i, mint := range []func(session string){
			func(s string) { table.Unpin(s) },
			func(s string) { table.Pin(s, fleet.OnRank(1, 0)) },
		} {
			far := fmt.Sprint("far", i)
			heard(t, table, far, 59*time.Minute)
			mint(far)
			if ahead := minted(t, table, far); ahead <= 59*time.Minute {
				t.Errorf("%s: minted %v above the wall clock, below what was known", far, ahead)
			}
			if ahead := minted(t, table, fmt.Sprint("fresh", i)); ahead > 30*time.Minute+time.Second {
				t.Errorf("%s: a new session was minted %v above the wall clock", far, ahead)
			}
		}
	})
}
