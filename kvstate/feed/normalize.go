package feed

import (
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
	"mooring/kvstate/index"
)

// maxGroups bounds the attention groups that are remembered.
const maxGroups = 256

// A change is what one event does to the index. Its slices last until the next
// event is normalized.
type change struct {
	kind      eventKind // stored, removed or cleared
	domain    kvstate.Domain
	tier      kvstate.Tier
	hasParent bool
	parent    uint64
	blocks    []kvstate.Block // stored
	cut       index.Cut       // of those
	hashes    []uint64        // removed
	short     bool            // of a store the last blocks are missing: their tokens were
}

// normalizer turns the events of one engine and one domain into changes, and
// refuses those that must not reach the index. It remembers what events teach
// about later ones; forget when the engine starts anew. The zero value is ready.
// Not for concurrent use.
type normalizer struct {
	groups map[uint64]bool // group -> holds whole prefixes, as stores with a kind said
	salts  salts

	adapter string // the last one, and the seed of its blocks
	seed    uint64

	// Scratch, used again for every event.
	blocks []kvstate.Block
	locals []uint64
	seen   map[uint64]struct{}
	keys   extraKeys
}

// forget drops what events taught; what is in scratch does not matter.
func (n *normalizer) forget() {
	n.groups, n.salts = nil, salts{}
}

// domainOf returns whose blocks an event is about, by its ownership field.
func domainOf(e *event) (kvstate.Domain, bool) {
	switch string(e.owner) {
	case "":
		return kvstate.WorkerDomain, true
	case "kvcr":
		return kvstate.CacheOwnerDomain, true
	}
	// A clear as an array has nothing but this; a medium there is no owner.
	_, medium := kvstate.TierOfMedium(string(e.owner))
	return kvstate.WorkerDomain, e.kind == cleared && medium
}

// normalize returns the change that e makes, or why it makes none. size is the
// partition's block size in tokens, and is not used for removals and clears.
func (n *normalizer) normalize(e *event, domain kvstate.Domain, size int) (c change, why Reason, ok bool) {
	c.kind, c.domain = e.kind, domain
	switch e.kind {
	case ignored:
		return c, Ignored, false
	case cleared:
		n.salts = salts{}
		return c, 0, true
	}
	if why, ok := n.attention(e); !ok {
		return c, why, false
	}
	if l := string(e.locality); l != "" && l != "LOCAL" {
		return c, NotLocal, false
	}
	if c.tier, ok = tierOf(e); !ok {
		return c, UnknownMedium, false
	}
	if domain == kvstate.CacheOwnerDomain && !ownerMedium(e.medium) {
		return c, OwnerMedium, false
	}
	if e.kind == removed {
		c.hashes = e.hashes
		return c, 0, true
	}
	why, ok = n.store(e, size, &c)
	return c, why, ok
}

// attention lets through what holds whole prefixes. Sliding windows, state and
// the like hold something else under the same hashes.
func (n *normalizer) attention(e *event) (why Reason, ok bool) {
	if len(e.attention) > 0 {
		main, known := mainAttention(e.attention)
		if _, learned := n.groups[e.group]; e.kind == stored && e.hasGroup && (learned || len(n.groups) < maxGroups) {
			if n.groups == nil {
				n.groups = make(map[uint64]bool)
			}
			n.groups[e.group] = main
		}
		switch {
		case !known:
			return UnknownKind, false
		case !main:
			return NonMainKind, false
		}
		return 0, true
	}
	if !e.hasGroup {
		return 0, true
	}
	main, learned := n.groups[e.group]
	switch {
	case learned && !main:
		return NonMainGroup, false
	case !learned && e.group != 0:
		return UnlearnedGroup, false
	}
	return 0, true
}

func mainAttention(kind []byte) (main, known bool) {
	switch string(kind) {
	case "full_attention", "mla_attention", "sink_full_attention":
		return true, true
	case "sliding_window", "sliding_window_mla", "mamba", "chunked_local_attention", "encoder_only_attention", "cross_attention":
		return false, true
	}
	return false, false
}

// tierOf returns the event's tier; without a medium it is the device.
func tierOf(e *event) (kvstate.Tier, bool) {
	if len(e.medium) == 0 {
		return kvstate.Device, true
	}
	return kvstate.TierOfMedium(string(e.medium))
}

// ownerMedium says whether the cache owner may hold blocks on a medium.
func ownerMedium(medium []byte) bool {
	switch string(medium) {
	case "CPU", "CPU_PINNED", "STORAGE", "DISK":
		return true
	}
	return false
}

// store checks a store and hashes its blocks.
func (n *normalizer) store(e *event, size int, c *change) (why Reason, ok bool) {
	switch {
	case size <= 0 || (e.blockSize != uint64(size) && (e.blockSize != 0 || c.domain == kvstate.WorkerDomain)):
		return WrongBlockSize, false
	case e.unnamedAdapter && len(e.adapter) == 0:
		return UnnamedAdapter, false
	}
	if why, ok := n.distinct(e); !ok {
		return why, false
	}
	ahead := 0
	c.cut.Windows = index.Plain
	if e.pairs {
		ahead, c.cut.Windows = 1, index.Eagle
	}
	complete := max(len(e.tokens)-ahead, 0) / size
	if complete == 0 || complete > len(e.hashes) {
		return WrongTokenCount, false // nothing to store, or hashes of another kind of cache
	}
	c.short = complete < len(e.hashes)
	if err := n.keys.read(e, complete); err != nil {
		return Undecodable, false
	}
	add, ok := n.salt(e)
	if !ok {
		return AmbiguousSalt, false
	}
	if string(e.adapter) != n.adapter || n.seed == 0 {
		n.adapter = string(e.adapter)
		n.seed = blockhash.Seed(n.adapter, "")
	}
	n.hash(e, size, ahead, complete, n.seed+add)
	for _, h := range e.hashes[:complete] {
		n.salts.put(h, add)
	}
	c.blocks, c.parent, c.hasParent = n.blocks, e.parent, e.hasParent
	return 0, true
}

// salt returns what the event's cache salt adds to the seed. Only the first
// block of a sequence carries the salt; the others have their parent's. An
// unknown parent counts as unsalted: should that be wrong, nobody finds the
// blocks, as who asks has to come through the salted parent.
func (n *normalizer) salt(e *event) (add uint64, ok bool) {
	switch {
	case len(n.keys.salt) > 0:
		return saltAdds(n.keys.salt), true
	case len(e.salt) > 0:
		return saltAdds(e.salt), true
	case !e.hasParent:
		return 0, true
	}
	s := n.salts.of(e.parent)
	return s.add, !s.ambiguous
}

func saltAdds(salt []byte) uint64 {
	return blockhash.Seed("", string(salt)) - blockhash.Seed("", "")
}

// distinct refuses a store that names a block twice: no chain is like that.
func (n *normalizer) distinct(e *event) (why Reason, ok bool) {
	if len(e.hashes) == 1 {
		return SelfParent, !e.hasParent || e.hashes[0] != e.parent
	}
	if n.seen == nil || len(n.seen) > maxHashes/16 {
		n.seen = make(map[uint64]struct{})
	}
	clear(n.seen)
	for _, h := range e.hashes {
		if e.hasParent && h == e.parent {
			return SelfParent, false
		}
		n.seen[h] = struct{}{}
	}
	if len(n.seen) != len(e.hashes) {
		return RepeatedHash, false
	}
	return 0, true
}

// hash fills blocks with the first complete blocks of e.
func (n *normalizer) hash(e *event, size, ahead, complete int, seed uint64) {
	n.locals, n.blocks = n.locals[:0], n.blocks[:0]
	switch {
	case n.keys.plain:
		tokens := e.tokens[:complete*size+ahead]
		if ahead == 0 {
			n.locals = blockhash.Append(n.locals, tokens, size, seed)
		} else {
			n.locals = blockhash.AppendEagle(n.locals, tokens, size, seed)
		}
	default:
		for i := range complete {
			window := e.tokens[i*size : (i+1)*size+ahead]
			n.locals = append(n.locals, blockhash.Block(window, n.keys.of(i), seed))
		}
	}
	for i, local := range n.locals {
		n.blocks = append(n.blocks, kvstate.Block{External: e.hashes[i], Local: local})
	}
}
