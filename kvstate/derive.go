package kvstate

import (
	"encoding/binary"

	"github.com/zeebo/blake3"
)

// Tags of identity material. That of stable slots is Mooring's own: upstream's is
// not known, so slots named here and there by one string have different ids.
const (
	semanticsDefaultTag  = "dynamo/indexer-cache-semantics/default/v1"
	semanticsExplicitTag = "dynamo/indexer-cache-semantics/explicit/v1"
	scopeDefaultTag      = "dynamo/indexer-routing-scope/default/v1"
	scopeExplicitTag     = "dynamo/indexer-routing-scope/explicit/v1"
	slotDefaultTag       = "mooring/stable-dp-slot/default/v1"
	slotExplicitTag      = "mooring/stable-dp-slot/explicit/v1"
	dcTag                = "dynamo/indexer-dc/v1"
)

// material is what an identity is the hash of. Every part is framed by its length
// (frames) or counted (count), both 4 bytes little-endian, so that neighbours
// cannot run into each other.
type material []byte

func (m material) frame(s string) material { return append(m.count(len(s)), s...) }

func (m material) count(n int) material { return binary.LittleEndian.AppendUint32(m, uint32(n)) }

// defaults frames a tag and a counted list.
func defaults(tag string, parts ...string) material {
	m := material{}.frame(tag).count(len(parts))
	for _, part := range parts {
		m = m.frame(part)
	}
	return m
}

// explicit frames a tag and counted entries in key order.
func explicit(tag string, entries ExplicitMap) material {
	m := material{}.frame(tag).count(len(entries.keys))
	for i, key := range entries.keys {
		m = m.frame(key).frame(entries.values[i])
	}
	return m
}

// cache mixes in what no explicit material can override.
func (m material) cache(blockSize uint32, hashFormat uint16) material {
	m = binary.LittleEndian.AppendUint32(m, blockSize)
	return binary.LittleEndian.AppendUint16(m, hashFormat)
}

func (m material) digest() Digest {
	sum := blake3.Sum256(m)
	return Digest(sum[:16])
}

// DefaultCacheSemantics derives the semantics of a model by the source path of its
// model card. blockSize is in tokens; hashFormat is the version of event hashes.
func DefaultCacheSemantics(sourcePath string, blockSize uint32, hashFormat uint16) CacheSemanticsID {
	return CacheSemanticsID{defaults(semanticsDefaultTag, sourcePath).cache(blockSize, hashFormat).digest(), DefaultDerived}
}

// ExplicitCacheSemantics derives the semantics that an operator described. The
// entries replace the defaults; blockSize and hashFormat always count.
func ExplicitCacheSemantics(entries ExplicitMap, blockSize uint32, hashFormat uint16) CacheSemanticsID {
	return CacheSemanticsID{explicit(semanticsExplicitTag, entries).cache(blockSize, hashFormat).digest(), Explicit}
}

// DefaultRoutingScope derives the scope of a serving endpoint.
func DefaultRoutingScope(endpoint EndpointID) RoutingScopeID {
	return RoutingScopeID{defaults(scopeDefaultTag, endpoint.Namespace, endpoint.Component, endpoint.Name).digest(), DefaultDerived}
}

// ExplicitRoutingScope derives the scope that an operator described.
func ExplicitRoutingScope(entries ExplicitMap) RoutingScopeID {
	return RoutingScopeID{explicit(scopeExplicitTag, entries).digest(), Explicit}
}

// DefaultStableDPSlot derives a slot from what the deployment is, part by part.
func DefaultStableDPSlot(parts ...string) StableDPSlotID {
	return StableDPSlotID{defaults(slotDefaultTag, parts...).digest(), DefaultDerived}
}

// ExplicitStableDPSlot derives the slot that an operator named, 1 to 1024 bytes.
func ExplicitStableDPSlot(name string) (StableDPSlotID, error) {
	entries, err := NewExplicitMap(map[string]string{"slot": name})
	if err != nil {
		return StableDPSlotID{}, err
	}
	return StableDPSlotID{explicit(slotExplicitTag, entries).digest(), Explicit}, nil
}

// DeriveDC derives the id of a data centre from its name. Unlike the others its
// tag is not framed and its bytes are read little-endian.
func DeriveDC(name string) DCID {
	sum := blake3.Sum256(material(dcTag).frame(name))
	return DCID(binary.LittleEndian.Uint64(sum[:8]))
}
