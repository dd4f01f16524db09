package index

import (
	"cmp"
	"slices"

	"mooring/kvstate"
)

// Match is how much of a prompt one worker has. The numbers are of blocks, and
// add up: after Device blocks from the start come HostPinned blocks that are not
// on the device, then Disk, then External ones.
type Match struct {
	Worker     kvstate.Worker
	Device     int
	HostPinned int
	Disk       int
	External   int
	// Holed says that what is known of an owner on that worker has known holes.
	Holed bool
}

// Blocks returns the length of the whole match.
func (m Match) Blocks() int { return m.Device + m.HostPinned + m.Disk + m.External }

// Matches is the result of a look-up and its scratch space. The zero value is
// ready. Reuse it: a look-up allocates only while it grows. It belongs to one
// goroutine at a time.
type Matches struct {
	found []Match
	walk  walk
}

// All returns the workers that have at least the first block, ordered by worker
// id and rank. The slice is good until the next look-up into m.
func (m *Matches) All() []Match { return m.found }

// Of returns the match of w, which is all zero but for Worker if there is none.
func (m *Matches) Of(w kvstate.Worker) Match {
	i, ok := slices.BinarySearchFunc(m.found, w, func(a Match, w kvstate.Worker) int { return compareWorkers(a.Worker, w) })
	if !ok {
		return Match{Worker: w}
	}
	return m.found[i]
}

func compareWorkers(a, b kvstate.Worker) int {
	return cmp.Or(cmp.Compare(a.WorkerID, b.WorkerID), cmp.Compare(a.DPRank, b.DPRank))
}

// Match finds for each worker to which p projects owners the longest contiguous
// match of local, the local block hashes of a prompt from its start, and leaves
// it in m. A worker's own blocks and those of its cache owners count together,
// each block once. Match takes no lock; in the steady state (same p, same owners)
// it allocates nothing.
func (ix *Index) Match(p *kvstate.Projection, local []uint64, m *Matches) {
	m.found = m.found[:0]
	if m.walk.lane == 0 {
		m.walk.lane = ix.lane.Add(1)
	}
	in := ix.epochs.enter(m.walk.lane)
	defer in.Add(-1)
	v := ix.view(p)
	if len(v.order) == 0 {
		return
	}
	m.walk.begin(v)
	depth := ix.walk(&m.walk, local)
	m.walk.end(depth)
	for _, face := range v.order {
		if c := &m.walk.cuts[face]; c[tiers-1] > 0 {
			m.found = append(m.found, Match{
				Worker: v.worker[face], Holed: v.holed[face],
				Device: int(c[0]), HostPinned: int(c[1] - c[0]), Disk: int(c[2] - c[1]), External: int(c[3] - c[2]),
			})
		}
	}
}

// walk follows local down the tree while any worker holds the block there, and
// returns how many blocks it followed.
func (ix *Index) walk(w *walk, local []uint64) int {
	id, n := root, ix.nodes.at(root)
	for i, l := range local {
		if id, n = ix.child(n, id, l); n == nil {
			return i
		}
		if !w.visit(ix, n, int32(i)) {
			return i
		}
	}
	return len(local)
}
