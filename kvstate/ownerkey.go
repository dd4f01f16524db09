package kvstate

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/zeebo/blake3"
)

// OwnerKey is a compact owner: 16 bytes of BLAKE3 over the full identity of a
// worker or of a cache owner.
type OwnerKey [16]byte

// String returns 32 hex digits.
func (k OwnerKey) String() string { return hex.EncodeToString(k[:]) }

// Key returns the compact key of the cache owner.
func (id CacheOwnerID) Key() OwnerKey {
	b := make([]byte, 0, 128)
	b = append(b, "dynamo/residency-owner/cache-owner/v1"...)
	domain := id.Pool.IndexerDomain
	b = append(append(b, domain.CacheSemantics.Digest[:]...), byte(domain.CacheSemantics.Source))
	b = append(append(b, domain.RoutingScope.Digest[:]...), byte(domain.RoutingScope.Source))
	b = binary.BigEndian.AppendUint64(b, uint64(id.Pool.DC))
	b = append(append(b, id.Slot.Digest[:]...), byte(id.Slot.Source))
	return ownerKey(b)
}

// WorkerKey returns the compact key of a worker's rank.
func WorkerKey(w Worker) OwnerKey {
	b := make([]byte, 0, 64)
	b = append(b, "dynamo/residency-owner/worker/v1"...)
	b = binary.BigEndian.AppendUint64(b, w.WorkerID)
	return ownerKey(binary.BigEndian.AppendUint32(b, w.DPRank))
}

func ownerKey(material []byte) OwnerKey {
	sum := blake3.Sum256(material)
	return OwnerKey(sum[:16])
}
