package discovery

import (
	"math/rand/v2"
	"testing"
	"time"

	"mooring/internal/fleet"
)

// TestAgendaAgreesWithAMap compares the agenda with a map that is searched, under
// random operations.
func TestAgendaAgreesWithAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var a agenda
	naive := make(map[fleet.WorkerID]time.Time)
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 20000 {
		id := fleet.WorkerID(random.IntN(50) + 1)
		at := now.Add(time.Duration(random.Int64N(100_000)))
		switch random.IntN(4) {
		case 0:
			a.set(id, at)
			naive[id] = at
		case 1:
			a.hasten(id, at)
			if old, ok := naive[id]; ok && at.Before(old) {
				naive[id] = at
			}
		case 2:
			a.remove(id)
			delete(naive, id)
		case 3:
			now = now.Add(time.Duration(random.Int64N(20_000)))
			id, late, ok := a.take(now)
			if !ok {
				break
			}
			if now.Add(-late) != naive[id] {
				t.Fatalf("worker %v was due at %v, want %v", id, now.Add(-late), naive[id])
			}
			delete(naive, id)
			for other, at := range naive {
				if at.Before(now.Add(-late)) {
					t.Fatalf("worker %v was taken before %v", id, other)
				}
			}
		}
		checkNext(t, &a, naive)
	}
}

func checkNext(t *testing.T, a *agenda, naive map[fleet.WorkerID]time.Time) {
	t.Helper()
	var want time.Time
	for _, at := range naive {
		if want.IsZero() || at.Before(want) {
			want = at
		}
	}
	if got, ok := a.next(); ok != (len(naive) > 0) || !got.Equal(want) {
		t.Fatalf("next is %v, %v; want %v of %d", got, ok, want, len(naive))
	}
}
