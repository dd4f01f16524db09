package replication

// windowSize is how far behind the newest number of a sender another may be and
// still be told from one that came before.
const windowSize = 4096

// window knows which of a sender's numbers came. The zero window has seen none.
type window struct {
	newest uint64
	seen   [windowSize / 64]uint64 // bit n % windowSize: n came
}

// startAt makes the window take n as the first that can be new.
func (w *window) startAt(n uint64) {
	w.newest = n - 1
	for i := range w.seen {
		w.seen[i] = ^uint64(0)
	}
}

// take marks n. It reports whether n is new, false also if it is too old to tell,
// and how many numbers before it have not come yet and were not told so before.
func (w *window) take(n uint64) (fresh bool, skipped uint64) {
	if n > w.newest {
		skipped = n - w.newest - 1
		for back := range min(n-w.newest, windowSize) {
			k := n - back
			w.seen[k%windowSize/64] &^= 1 << (k % 64)
		}
		w.newest = n
	} else if w.newest-n >= windowSize || w.seen[n%windowSize/64]&(1<<(n%64)) != 0 {
		return false, 0
	}
	w.seen[n%windowSize/64] |= 1 << (n % 64)
	return true, skipped
}
