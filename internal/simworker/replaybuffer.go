package simworker

import "sync"

// sent is a batch as it went, or should have gone, over the wire.
type sent struct {
	seq     uint64
	payload []byte
}

// replayBuffer is the last batches of one rank, in order. Its methods are safe
// for concurrent use.
type replayBuffer struct {
	limit int

	mu struct {
		sync.Mutex
		ring []sent // grows up to limit
		next int    // where the next goes, when the ring is full
	}
}

func newReplayBuffer(limit int) *replayBuffer { return &replayBuffer{limit: limit} }

// add appends a batch; when the buffer is full the oldest goes.
func (b *replayBuffer) add(s sent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.ring) < b.limit {
		b.mu.ring = append(b.mu.ring, s)
		return
	}
	b.mu.ring[b.mu.next] = s
	b.mu.next = (b.mu.next + 1) % b.limit
}

// clear forgets everything.
func (b *replayBuffer) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.ring, b.mu.next = nil, 0
}

// since returns the batches from a sequence number on.
func (b *replayBuffer) since(seq uint64) []sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []sent
	for i := range b.mu.ring {
		if s := b.mu.ring[(b.mu.next+i)%len(b.mu.ring)]; s.seq >= seq {
			out = append(out, s)
		}
	}
	return out
}
