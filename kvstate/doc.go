// Package kvstate holds the contracts of persistent KV state and the decisions
// made from them: who owns a KV pool, which worker is attached to it now, and
// whether that may be believed.
//
// It owns the identities ([CacheOwnerID], [OwnerKey], record ids), the wire
// forms (advertisements, control queries, router events), [Resolve], and the
// immutable [Projection] that look-ups read through a [Controller]. It opens no
// socket, starts no goroutine and keeps no index; its subpackages do.
//
// Names, topics, constants and wire forms are those of NVIDIA Dynamo's KV state
// protocol v2, so that records and events of either system are read by the other.
// Decoding refuses duplicate names, missing fields and unknown enum strings, and
// ignores unknown fields. Every 64-bit number is exact.
package kvstate
