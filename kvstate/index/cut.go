package index

// Cut says how the tokens of a store's blocks were cut. It is no part of an owner's
// identity: give it with each store.
type Cut struct {
	// Size is the number of tokens in a block. The index takes the size if it holds
	// nothing and none is configured; else blocks of another size are refused. 0:
	// whatever size the index has.
	Size int
	// Windows are those of the blocks. 0: Plain.
	Windows Windows
}

func (c Cut) windows() Windows {
	if w := c.Windows & allWindows; w != 0 {
		return w
	}
	return Plain
}

// Windows says which tokens the hash of a block covers. As a set it says of which
// kinds an index has blocks: engines with and without speculation may serve one
// partition, at least while they are exchanged for each other.
type Windows uint32

const (
	// Plain windows cover the block.
	Plain Windows = 1 << iota
	// Eagle windows cover the token after the block too: see blockhash.AppendEagle.
	Eagle

	allWindows = Plain | Eagle
)

// Windows returns those of all blocks here; Plain if there are none. A prompt is
// looked up by each kind. The index cannot tell the kinds apart itself.
func (ix *Index) Windows() Windows {
	if w := Windows(ix.windows.Load()); w != 0 {
		return w
	}
	return Plain
}

// setWindowsLocked says of which kinds own has blocks, before a look-up sees them.
func (ix *Index) setWindowsLocked(own *owner, w Windows) {
	if own.windows == w {
		return
	}
	ix.mu.windowed[own.windows]--
	ix.mu.windowed[w]++
	own.windows = w
	var all Windows
	for w, owners := range ix.mu.windowed {
		if owners > 0 {
			all |= Windows(w)
		}
	}
	ix.windows.Store(uint32(all))
}

// BlockSize returns the number of tokens in a block, 0 if it is not known. One that
// was learnt becomes another when the index is empty and a block of another size is
// stored. Who looks up a prompt cut by the size before finds nothing: windows of
// other tokens have other hashes. (Where an Eagle window of n tokens and one more is
// the plain one of n+1, one block is found, of just these tokens.)
func (ix *Index) BlockSize() int { return int(ix.blockSize.Load()) }

// SetBlockSize says by configuration how many tokens a block has: no other size is
// taken until as many calls of ReleaseBlockSize. It is false, and nothing is to be
// released, if n is below 1, or if another size is configured, or was learnt and
// there are blocks.
func (ix *Index) SetBlockSize(n int) bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if !ix.takeSizeLocked(n) {
		return false
	}
	ix.mu.sizeClaims++
	return true
}

// ReleaseBlockSize ends what a successful SetBlockSize began. The size stays until
// another one is learnt or configured.
func (ix *Index) ReleaseBlockSize() {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.mu.sizeClaims = max(ix.mu.sizeClaims-1, 0)
}

// SizeFor returns n if blocks of n tokens could be stored now, else BlockSize.
func (ix *Index) SizeFor(n int) int {
	have := ix.BlockSize()
	if n < 1 || n == have {
		return have
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.sizeFitsLocked(n) {
		return n
	}
	return ix.BlockSize()
}

// takeSizeLocked makes n the size of a block if it can be.
func (ix *Index) takeSizeLocked(n int) bool {
	if !ix.sizeFitsLocked(n) {
		return false
	}
	if ix.BlockSize() != n {
		ix.blockSize.Store(int64(n))
	}
	return true
}

func (ix *Index) sizeFitsLocked(n int) bool {
	have := ix.BlockSize()
	return n >= 1 && (n == have || have == 0 || ix.mu.sizeClaims+ix.mu.pairs+ix.mu.orphans == 0)
}
