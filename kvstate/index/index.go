package index

import (
	"mooring/kvstate"
)

// Owner is who holds blocks.
type Owner struct {
	Key    kvstate.OwnerKey
	Domain kvstate.Domain
	// Engine is, for a cache owner, the key of the worker-domain owner whose engine
	// made the external hashes: a parent that the cache owner does not hold itself
	// is looked for there. It is no part of the owner's identity. Zero: nowhere.
	Engine kvstate.OwnerKey
}

// Outcome counts what became of the blocks of one store. The sum of the fields
// is the number of blocks.
type Outcome struct {
	Stored   int // held in the tier now, and not before
	Repeated int // held in the tier already
	Orphaned int // kept until their parent is known
	Conflict int // not placed, nor any block after them: held elsewhere by that owner
	Refused  int // there was no room
}

// Index is the blocks of one partition.
type Index struct{}

// Store records that o holds blocks in tier. The first block follows the one with
// the external hash parent, or begins a prompt if hasParent is false; each further
// one follows the one before it. blocks is not kept.
func (ix *Index) Store(o Owner, tier kvstate.Tier, parent uint64, hasParent bool, blocks []kvstate.Block) Outcome {
	return Outcome{Refused: len(blocks)}
}

// Remove takes blocks, by external hash, away from o in tier, and returns how many
// of them o did not hold there, which is harmless.
func (ix *Index) Remove(o Owner, tier kvstate.Tier, external []uint64) (unknown int) {
	return len(external)
}

// Clear forgets o with all that it holds in every tier. Look-ups that begin after
// it returns do not see it.
func (ix *Index) Clear(o Owner) {}

// BlockSize returns the number of tokens in a block, 0 if it is not known yet.
func (ix *Index) BlockSize() int { return 0 }

// SetBlockSize says how many tokens a block has. The first size stays: it returns
// false for another one, and for a size below 1.
func (ix *Index) SetBlockSize(n int) bool { return false }

// Blocks returns the number of blocks that o holds, in whatever tier; a block in
// two tiers counts once, orphans do not.
func (ix *Index) Blocks(o Owner) int { return 0 }

// Len returns the number of (block, owner) pairs, without orphans.
func (ix *Index) Len() int { return 0 }
