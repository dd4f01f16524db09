package affinity

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
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
