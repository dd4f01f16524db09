package index

// Windows says which tokens the hash of a block covers. As a set it says of which
// kinds an index has blocks: engines with and without speculation may serve one
// partition, at least while they are exchanged for each other.
type Windows uint32

const (
	// Plain windows cover the block.
	Plain Windows = 1 << iota
	// Eagle windows cover the token after the block too: see blockhash.AppendEagle.
	Eagle
)

// AddWindows says that blocks with these windows are stored. A prompt is looked up
// by each kind that an index has. The index cannot tell the kinds apart itself.
func (ix *Index) AddWindows(w Windows) {
	if have := Windows(ix.windows.Load()); have|w != have {
		ix.windows.Or(uint32(w))
	}
}

// Windows returns all that AddWindows was told; Plain if it was never called.
func (ix *Index) Windows() Windows {
	if w := Windows(ix.windows.Load()); w != 0 {
		return w
	}
	return Plain
}
