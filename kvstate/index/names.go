package index

// name is one external hash of one owner: where its block is, and how often the
// owner stored it in each tier.
type name struct {
	external uint64
	node     uint32 // 0 in an empty slot: the root has no name
	counts   [tiers]uint8
}

// tiers is how many there are: Device, HostPinned, Disk, External.
const tiers = 4

// names is an owner's table of external hashes. It is kept in segments, so that
// growing one moves some thousand names at most even when there are hundreds of
// thousands. Guarded by Index.mu.
type names struct {
	seed     uint64
	n        int
	segments [64][]name
	sizes    [64]int
}

// find returns the entry of an external hash, nil if there is none. The pointer is
// good until the next insert or remove.
func (t *names) find(external uint64) *name {
	h := mix(external ^ t.seed)
	seg := t.segments[h>>58]
	if len(seg) == 0 {
		return nil
	}
	for i := home(h, len(seg)); ; i++ {
		if i == len(seg) {
			i = 0
		}
		switch e := &seg[i]; {
		case e.node == 0:
			return nil
		case e.external == external:
			return e
		}
	}
}

// insert adds a hash that is not there yet.
func (t *names) insert(n name) {
	h := mix(n.external ^ t.seed)
	s := h >> 58
	if (t.sizes[s]+1)*4 > len(t.segments[s])*3 {
		t.resize(int(s))
	}
	put(t.segments[s], h, n)
	t.sizes[s]++
	t.n++
}

func put(seg []name, hash uint64, n name) {
	i := home(hash, len(seg))
	for seg[i].node != 0 {
		if i++; i == len(seg) {
			i = 0
		}
	}
	seg[i] = n
}

// remove takes away a hash, which must be there. Later entries move up, so that no
// probe meets a gap.
func (t *names) remove(external uint64) {
	h := mix(external ^ t.seed)
	s := h >> 58
	seg := t.segments[s]
	gap := home(h, len(seg))
	for seg[gap].node == 0 || seg[gap].external != external {
		if gap++; gap == len(seg) {
			gap = 0
		}
	}
	for i := gap; ; {
		if i++; i == len(seg) {
			i = 0
		}
		if seg[i].node == 0 {
			break
		}
		from := home(mix(seg[i].external^t.seed), len(seg))
		if apart(from, i, len(seg)) >= apart(gap, i, len(seg)) {
			seg[gap], gap = seg[i], i
		}
	}
	seg[gap] = name{}
	t.sizes[s]--
	t.n--
	if t.sizes[s]*4 < len(seg) {
		t.resize(int(s))
	}
}

// apart is how many steps a probe takes from a to b in a ring of n.
func apart(a, b, n int) int {
	if b < a {
		b += n
	}
	return b - a
}

// resize makes a segment half as long again as its names, and one more, need.
func (t *names) resize(s int) {
	old := t.segments[s]
	if t.sizes[s] == 0 && len(old) > 0 {
		t.segments[s] = nil
		return
	}
	t.segments[s] = make([]name, max(4, (t.sizes[s]+1)*2))
	for _, n := range old {
		if n.node != 0 {
			put(t.segments[s], mix(n.external^t.seed), n)
		}
	}
}
