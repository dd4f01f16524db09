package affinity

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/zeebo/blake3"

	"mooring/internal/fleet"
)

// Buckets is how many parts a digest has.
const Buckets = 256

// Digest is the sum of the hashes of all records, bindings and floors, of a
// partition, by bucket. Equal tables have equal digests on every replica.
// Deadlines are not part of it.
type Digest [Buckets]uint64

// hashed is the part of an entry or a floor that the table's digest knows.
type hashed struct {
	session string // never changes
	sum     uint64 // 0: it is in no digest. Written under its owner's lock and its bucket's, read under either
	slot    int32  // its place among the bucket's members; guarded by the bucket's lock
	bucket  uint8  // set with the first sum
	floor   bool   // a floor; else a binding. Never changes
}

// digest is the Digest as it is kept: each change of a record adds the
// difference of its hashes, so the order of changes makes none. The locks of
// buckets are taken last.
type digest [Buckets]bucket

type bucket struct {
	mu struct {
		sync.Mutex
		sum     uint64
		members []Ref            // in no order
		subs    *[Buckets]uint64 // sums by sub-bucket; nil until there were many members
	}
	_ [16]byte // keeps neighbours on different cache lines
}

// manyMembers is from how many members on a bucket keeps its sub-digest: below
// it, making one costs less than keeping it.
const manyMembers = 128

// replace puts a record's new hash in the place of its old one; 0 is no record.
// The owner of h is locked.
func (d *digest) replace(h *hashed, to uint64) {
	if h.sum == to {
		return
	}
	if h.sum == 0 {
		h.bucket = BucketOf(h.session)
	}
	b := &d[h.bucket]
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.sum += to - h.sum
	if b.mu.subs != nil {
		b.mu.subs[SubBucketOf(h.sum)] -= h.sum
		b.mu.subs[SubBucketOf(to)] += to
	}
	switch {
	case h.sum == 0:
		h.slot = int32(len(b.mu.members))
		b.mu.members = append(b.mu.members, Ref{to, h})
		if b.mu.subs == nil && len(b.mu.members) > manyMembers {
			b.mu.subs = subDigest(b.mu.members)
		}
	case to == 0:
		last := len(b.mu.members) - 1
		moved := b.mu.members[last]
		b.mu.members[h.slot], moved.of.slot = moved, h.slot
		b.mu.members[last] = Ref{}
		b.mu.members = b.mu.members[:last]
	default:
		b.mu.members[h.slot].Sum = to
	}
	h.sum = to
}

func subDigest(members []Ref) *[Buckets]uint64 {
	subs := new([Buckets]uint64)
	for _, m := range members {
		subs[SubBucketOf(m.Sum)] += m.Sum
	}
	return subs
}

// SubBucketOf returns the part of its bucket that a record with this sum is in.
func SubBucketOf(sum uint64) uint8 { return uint8(sum) }

// BucketOf returns the bucket of a session: the same on every replica.
func BucketOf(session string) uint8 {
	sum := blake3.Sum256([]byte(session))
	return sum[0]
}

func bindingSum(session string, v version, t fleet.Target) uint64 {
	b := make([]byte, 0, 64+MaxSessionBytes)
	b = append(b, 'b')
	b = appendVersion(b, v)
	b = binary.BigEndian.AppendUint64(b, uint64(t.Worker))
	if t.Ranked {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = binary.BigEndian.AppendUint32(b, t.Rank)
	return shortSum(append(b, session...))
}

func floorSum(session string, v version) uint64 {
	b := append(make([]byte, 0, 64+MaxSessionBytes), 'f')
	return shortSum(append(appendVersion(b, v), session...))
}

func appendVersion(b []byte, v version) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, v.sequence), v.writer)
}

// shortSum is never 0, which stands for no record.
func shortSum(b []byte) uint64 {
	sum := blake3.Sum256(b)
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// Sum returns the hash of the record that e tells, as digests and Record.Sum
// have it.
func (e Event) Sum() uint64 {
	v := version{e.Sequence, e.WriterID}
	if e.Kind == EventUnpinned {
		return floorSum(e.Session, v)
	}
	return bindingSum(e.Session, v, e.Target)
}

// Digest returns the digest of what the table holds at this moment: what has
// ended is swept first.
func (t *Table) Digest() (d Digest) {
	now := t.now()
	t.sweep(now)
	t.floors.sweep(now, &t.digest)
	for i := range d {
		b := &t.digest[i]
		b.mu.Lock()
		d[i] = b.mu.sum
		b.mu.Unlock()
	}
	return d
}

// SubDigest returns the digest of one bucket: the sums of its records by
// SubBucketOf.
func (t *Table) SubDigest(bucket uint8) Digest {
	b := &t.digest[bucket]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.subs != nil {
		return *b.mu.subs
	}
	return *subDigest(b.mu.members)
}

// Ref names a record that a table held at some moment. It keeps the record's
// memory alive.
type Ref struct {
	Sum uint64 // at that moment
	of  *hashed
}

// BucketLen returns how many records are in a bucket.
func (t *Table) BucketLen(bucket uint8) int {
	b := &t.digest[bucket]
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.members)
}

// Refs appends the records of a bucket to dst, in no order, those included that
// have ended and were not yet swept. It holds only the bucket's lock, while it
// copies: 16 bytes for each record.
func (t *Table) Refs(dst []Ref, bucket uint8) []Ref {
	b := &t.digest[bucket]
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(dst, b.mu.members...)
}

// Record returns what the session of ref is bound to now, or its floor; false if
// that has ended.
func (t *Table) Record(ref Ref) (Record, bool) {
	now := t.now()
	if ref.of.floor {
		return t.floors.record(ref.of.session, now)
	}
	sh := t.shardOf(ref.of.session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.mu.entries[ref.of.session]
	if e == nil {
		return Record{}, false
	}
	ev, ok := t.tellLocked(e, now)
	return Record{Event: ev, Sum: e.sum}, ok
}

// Record is a binding or a floor as it would be told to another replica now.
type Record struct {
	Event
	Sum uint64 // as in digests
}

// InUseParts is into how many parts InUse divides a table: a few hundred bindings
// each of a million.
const InUseParts = 16 * Buckets

// InUse returns the bindings in one part of the table that have leases now, with
// their full life, ordered by session.
func (t *Table) InUse(part int) (events []Event) {
	now := t.now()
	for _, ref := range t.Refs(nil, uint8(part/16)) {
		if ref.of.floor || int(SubBucketOf(ref.Sum)%16) != part%16 {
			continue
		}
		sh := t.shardOf(ref.of.session)
		sh.mu.Lock()
		if e := sh.mu.entries[ref.of.session]; e != nil && e.leases > 0 {
			if ev, ok := t.tellLocked(e, now); ok {
				events = append(events, ev)
			}
		}
		sh.mu.Unlock()
	}
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.Session, b.Session) })
	return events
}

// Current returns the session's binding as an event of use, with the life that
// it has now; false if there is none.
func (t *Table) Current(session string) (Event, bool) {
	now := t.now()
	sh := t.shardOf(session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.mu.entries[session]; e != nil {
		return t.tellLocked(e, now)
	}
	return Event{}, false
}

// Floor returns the session's latest unpin, with the life that it has now; false
// if there is none.
func (t *Table) Floor(session string) (Event, bool) {
	r, ok := t.floors.record(session, t.now())
	return r.Event, ok
}

func (t *Table) tellLocked(e *entry, now instant) (Event, bool) {
	s := e.state
	if s.settle(now); !s.bound() {
		return Event{}, false
	}
	ev := Event{Kind: EventUsed, Session: e.session, Target: s.target, Sequence: s.version.sequence, WriterID: s.version.writer, Life: t.rules.ttl}
	if s.leases == 0 {
		ev.Life = timeLeft(s.deadline, now)
	}
	return ev, true
}

// hash brings the digest up to date with e. The entry's shard is locked.
func (t *Table) hash(e *entry) {
	if !e.bound() {
		t.digest.replace(&e.hashed, 0)
		return
	}
	if t.revert == FloorsStay {
		t.floors.forget(e.session, &t.digest)
	}
	t.digest.replace(&e.hashed, bindingSum(e.session, e.version, e.target))
}
