package kvstate

import (
	"encoding/hex"
	"fmt"
)

// IdentitySource says where the material of an identity came from. Two digests
// with different sources are different identities, even if their bytes agree.
type IdentitySource uint8

const (
	// DefaultDerived: made from what the deployment is, nobody named it.
	DefaultDerived IdentitySource = iota
	// Explicit: made from entries that an operator wrote.
	Explicit
)

// String returns the wire name: "default_derived" or "explicit".
func (s IdentitySource) String() string { return enumString(identitySources, s) }

// MarshalText writes the wire name; an unknown value is an error.
func (s IdentitySource) MarshalText() ([]byte, error) { return enumText(identitySources, s) }

// UnmarshalText reads the wire name; an unknown one is an error.
func (s *IdentitySource) UnmarshalText(b []byte) error { return enumParse(identitySources, b, s) }

// Digest is the first 16 bytes of a BLAKE3 hash. In JSON it is an array of 16
// numbers, not a string. A [16]byte is assignable to it.
type Digest [16]byte

// String returns 32 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// CacheSemanticsID says which caches hold interchangeable blocks. On the wire:
//
//	{"digest":[125,49,...16 numbers],"source":"explicit"}
type CacheSemanticsID struct {
	Digest Digest         `json:"digest"`
	Source IdentitySource `json:"source"`
}

// String returns the digest as 32 hex digits.
func (id CacheSemanticsID) String() string { return id.Digest.String() }

// RoutingScopeID says which serving endpoint may share an index. The wire form
// is that of [CacheSemanticsID].
type RoutingScopeID struct {
	Digest Digest         `json:"digest"`
	Source IdentitySource `json:"source"`
}

// String returns the digest as 32 hex digits.
func (id RoutingScopeID) String() string { return id.Digest.String() }

// StableDPSlotID names one data-parallel slot for longer than an engine process
// lives. The wire form is that of [CacheSemanticsID].
type StableDPSlotID struct {
	Digest Digest         `json:"digest"`
	Source IdentitySource `json:"source"`
}

// String returns the digest as 32 hex digits.
func (id StableDPSlotID) String() string { return id.Digest.String() }

// DCID names a data centre. On the wire it is a bare 64-bit number, which must
// not pass through a float64.
type DCID uint64

// String returns 16 hex digits, zero padded.
func (id DCID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// IndexerDomainID separates indexes that must never share blocks.
type IndexerDomainID struct {
	CacheSemantics CacheSemanticsID `json:"cache_semantics"`
	RoutingScope   RoutingScopeID   `json:"routing_scope"`
}

// String returns "<semantics hex>:<scope hex>".
func (id IndexerDomainID) String() string {
	return id.CacheSemantics.String() + ":" + id.RoutingScope.String()
}

// UsesDefaults reports whether either half was derived by default.
func (id IndexerDomainID) UsesDefaults() bool {
	return id.CacheSemantics.Source == DefaultDerived || id.RoutingScope.Source == DefaultDerived
}

// PoolID is one indexer domain in one data centre.
type PoolID struct {
	IndexerDomain IndexerDomainID `json:"indexer_domain"`
	DC            DCID            `json:"dc_id"`
}

// String returns "<domain>/<dc>".
func (id PoolID) String() string { return id.IndexerDomain.String() + "/" + id.DC.String() }

// CacheOwnerID is the durable identity of the KV pool behind one data-parallel
// slot. It outlives the engine process that uses the pool. Comparable with ==.
type CacheOwnerID struct {
	Pool PoolID         `json:"pool"`
	Slot StableDPSlotID `json:"slot"`
}

// String returns "<pool>/<slot hex>".
func (id CacheOwnerID) String() string { return id.Pool.String() + "/" + id.Slot.String() }
