package kvstate

import "fmt"

// EventKind is what a [RouterEvent] says about blocks. The zero value is none.
type EventKind uint8

const (
	// Stored: blocks are held now, in a chain.
	Stored EventKind = iota + 1
	// Removed: blocks are no longer held.
	Removed
	// Cleared: nothing is held any more, in the domain the event names.
	Cleared
)

// String returns the wire name: stored, removed or cleared.
func (k EventKind) String() string { return enumString(eventKinds, k) }

// WireDomain is an event's residency_domain as it came: absent, or any string.
// What is unknown is kept, so that passing an event on does not change it.
type WireDomain struct {
	Present bool
	Name    string // meaningful only if Present
}

// InDomain is the residency_domain that names d.
func InDomain(d Domain) WireDomain { return WireDomain{Present: true, Name: d.String()} }

// MMObject is a multimodal object inside a block.
type MMObject struct {
	Hash    uint64      `json:"mm_hash"`
	Offsets [][2]uint64 `json:"offsets"` // token ranges within the block, start and end
}

// StoreData is the blocks of a Stored event, each the child of the one before.
type StoreData struct {
	Parent        uint64 // the external hash before the first block, if HasParent
	HasParent     bool   // false: the chain starts at the root
	StartPosition *uint32
	Blocks        []Block
	// MM is the multimodal objects by block: nil, or as long as Blocks. MM[i] is
	// nil for a block without mm_extra_info.
	MM [][]MMObject
}

// RouterEvent is one numbered change of a state agent's (or worker's) index. In
// JSON:
//
//	{"worker_id":17,"storage_tier":"host_pinned","residency_domain":"cache_owner",
//	 "event":{"event_id":5,"data":{"removed":{"block_hashes":[1,2]}},"dp_rank":0},
//	 "state_source":{"pool":...,"slot":...}}
type RouterEvent struct {
	WorkerID    uint64
	Tier        Tier
	Domain      WireDomain
	EventID     uint64
	DPRank      uint32
	Kind        EventKind
	Store       StoreData     // of a Stored event
	Removed     []uint64      // of a Removed event: external hashes
	StateSource *CacheOwnerID // required in the cache-owner domain
	SessionID   *string
}

// Scope is the domains that an event touches.
type Scope struct {
	All    bool   // every domain: a Cleared event of the legacy form
	Domain Domain // meaningful unless All
}

// Scope returns the domains that e touches, or why e must not be applied: an
// unknown domain, or a cache-owner event that names no owner or (unless it is a
// Cleared, where the tier means nothing) the device tier. An event without a
// domain is of the worker domain if it stores or removes, and of all if it clears.
func (e *RouterEvent) Scope() (Scope, error) {
	if !e.Domain.Present {
		return Scope{All: e.Kind == Cleared}, nil
	}
	var d Domain
	if err := enumParse(domains, e.Domain.Name, &d); err != nil {
		return Scope{}, err
	}
	if d == CacheOwnerDomain {
		if e.StateSource == nil {
			return Scope{}, fmt.Errorf("event %d: cache_owner domain without state_source", e.EventID)
		}
		if e.Tier == Device && e.Kind != Cleared {
			return Scope{}, fmt.Errorf("event %d: cache_owner domain at tier device", e.EventID)
		}
	}
	return Scope{Domain: d}, nil
}
