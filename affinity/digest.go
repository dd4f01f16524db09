package affinity

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/zeebo/blake3"

	"mooring/internal/fleet"
)

// Buckets is how many parts a digest has.
const Buckets = 256

// Digest is the sum of the hashes of all records, bindings and floors, of a
// partition, by bucket. Equal tables have equal digests on every replica.
// Deadlines are not part of it.
type Digest [Buckets]uint64

// digest is the Digest as it is kept: each change of a record adds the
// difference of its hashes, so the order of changes makes none.
type digest [Buckets]atomic.Uint64

// replace puts a record's new hash in the place of its old one; 0 is no record.
func (d *digest) replace(bucket uint8, sum *uint64, to uint64) {
	d[bucket].Add(to - *sum)
	*sum = to
}

// bucketOf returns the bucket of a session: the same on every replica.
func bucketOf(session string) uint8 {
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

// BucketOf returns the bucket of a session in every digest.
func BucketOf(session string) uint8 { return bucketOf(session) }

// Digest returns the digest of what the table holds at this moment: what has
// ended is swept first.
func (t *Table) Digest() (d Digest) {
	now := t.now()
	t.sweep(now)
	t.floors.sweep(now, &t.digest)
	for i := range d {
		d[i] = t.digest[i].Load()
	}
	return d
}

// Record is a binding or a floor as it would be told to another replica now.
type Record struct {
	Event
	Sum uint64 // as in digests
}

// Records returns the bindings and floors in the buckets for which want is true,
// ordered by their sums. It looks at every entry, in small holds of one lock at a time.
func (t *Table) Records(want *[Buckets]bool) (recs []Record) {
	now := t.now()
	for i := range t.shards {
		t.shards[i].eachLocked(func(e *entry) {
			if e.sum == 0 || !want[e.bucket] {
				return
			}
			if ev, ok := t.tellLocked(e, now); ok {
				recs = append(recs, Record{Event: ev, Sum: e.sum})
			}
		})
	}
	t.floors.each(now, func(fl *floor) {
		if want[fl.bucket] {
			recs = append(recs, Record{Sum: fl.sum, Event: Event{
				Kind: EventUnpinned, Session: fl.session, Sequence: fl.version.sequence, WriterID: fl.version.writer, Life: timeLeft(fl.deadline, now),
			}})
		}
	})
	slices.SortFunc(recs, func(a, b Record) int { return cmp.Compare(a.Sum, b.Sum) })
	return recs
}

// InUse returns the bindings that have leases now, with their full life, ordered
// by session.
func (t *Table) InUse() (events []Event) {
	now := t.now()
	for i := range t.shards {
		t.shards[i].eachLocked(func(e *entry) {
			if e.leases == 0 {
				return
			}
			if ev, ok := t.tellLocked(e, now); ok {
				events = append(events, ev)
			}
		})
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
		t.digest.replace(e.bucket, &e.sum, 0)
		return
	}
	if e.sum == 0 {
		e.bucket = bucketOf(e.session)
	}
	t.digest.replace(e.bucket, &e.sum, bindingSum(e.session, e.version, e.target))
}
