package affinity

import (
	"math/rand/v2"
	"testing"
)

// TestDeadlinesStayAHeap files, brings forward, postpones and removes at random.
func TestDeadlinesStayAHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var d deadlines
	var in []*entry
	for step := range 20_000 {
		due := instant(rng.IntN(1000))
		switch op := rng.IntN(10); {
		case op < 4 || len(in) == 0:
			e := &entry{pos: unfiled}
			d.file(e, due)
			in = append(in, e)
		case op < 6:
			d.file(in[rng.IntN(len(in))], due)
		case op < 7:
			d.postpone(d[0].due + due)
		default:
			i := rng.IntN(len(in))
			d.remove(in[i])
			if in[i].pos != unfiled {
				t.Fatal("a removed entry says that it is filed")
			}
			in[i] = in[len(in)-1]
			in = in[:len(in)-1]
		}
		if len(d) != len(in) {
			t.Fatalf("step %d: %d filed, %d known", step, len(d), len(in))
		}
		for i := range d {
			if int(d[i].entry.pos) != i || d[(max(i, 1)-1)/4].due > d[i].due {
				t.Fatalf("step %d: position %d is out of order", step, i)
			}
		}
	}
}

func TestDeadlinesAreNeverPutOffByFiling(t *testing.T) {
	var d deadlines
	e := &entry{pos: unfiled}
	d.file(e, 10)
	d.file(e, 20)
	if d[0].due != 10 {
		t.Errorf("due at %d", d[0].due)
	}
	d.file(e, 5)
	if d[0].due != 5 {
		t.Errorf("due at %d", d[0].due)
	}
}
