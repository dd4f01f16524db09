package agenda

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"
)

// TestAgendaAgreesWithAMap compares the agenda with a map that is searched, under
// random operations.
func TestAgendaAgreesWithAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var a Agenda[int]
	naive := make(map[int]time.Time)
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 20000 {
		id := random.IntN(50) + 1
		at := now.Add(time.Duration(random.Int64N(100_000)))
		switch random.IntN(6) {
		case 0:
			a.Set(id, at)
			naive[id] = at
		case 1:
			a.Hasten(id, at)
			if old, ok := naive[id]; ok && at.Before(old) {
				naive[id] = at
			}
		case 2:
			a.Remove(id)
			delete(naive, id)
		case 3:
			a.AtLatest(id, at)
			if old, ok := naive[id]; !ok || at.Before(old) {
				naive[id] = at
			}
		case 4:
			so := func(key int) bool { return key%7 == id%7 }
			a.RemoveIf(so)
			maps.DeleteFunc(naive, func(key int, _ time.Time) bool { return so(key) })
		case 5:
			now = now.Add(time.Duration(random.Int64N(20_000)))
			id, late, ok := a.Take(now)
			if !ok {
				break
			}
			if now.Add(-late) != naive[id] {
				t.Fatalf("key %v was due at %v, want %v", id, now.Add(-late), naive[id])
			}
			delete(naive, id)
			for other, at := range naive {
				if at.Before(now.Add(-late)) {
					t.Fatalf("key %v was taken before %v", id, other)
				}
			}
		}
		if _, ok := naive[id]; a.Has(id) != ok || len(a.heap) != len(naive) {
			t.Fatalf("key %v is there: %v, want %v; %d keys, want %d", id, a.Has(id), ok, len(a.heap), len(naive))
		}
		checkNext(t, &a, naive)
	}
}

func checkNext(t *testing.T, a *Agenda[int], naive map[int]time.Time) {
	t.Helper()
	var want time.Time
	for _, at := range naive {
		if want.IsZero() || at.Before(want) {
			want = at
		}
	}
	if got, ok := a.Next(); ok != (len(naive) > 0) || !got.Equal(want) {
		t.Fatalf("next is %v, %v; want %v of %d", got, ok, want, len(naive))
	}
}
