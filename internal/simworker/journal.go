package simworker

import (
	"sync/atomic"
	"time"
)

// maxEventBlocks bounds the blocks of one stored event. vLLM computes a long
// prompt in chunks of some thousand tokens, and its events are no larger.
const maxEventBlocks = 512

// changeKind is what happened to blocks.
type changeKind uint8

const (
	blocksStored  changeKind = iota // became full, or were copied to the host
	blocksRemoved                   // were evicted
	blocksCleared                   // all blocks of the tier are gone
)

// change is one change of what a rank holds.
type change struct {
	kind   changeKind
	host   bool // in the host pool, not in the cache
	keys   []blockKey
	parent blockKey // of the first stored block
	root   bool     // the first stored block has no parent: it begins a sequence
	tokens []token  // of the stored blocks
	ns     namespace
}

// batch is what one step of the engine changed.
type batch struct {
	seq     uint64
	epoch   uint64
	at      time.Time
	changes []change
}

// journal hands the changes of one rank, in their order, to whoever publishes
// them. Its queue is bounded: a batch that finds it full is lost, but has had
// its number, as with vLLM. Everything but the receiving end of the queue and
// the counter is guarded by engine.mu. A nil journal records nothing.
type journal struct {
	batches chan batch
	dropped atomic.Uint64

	seq   uint64 // of the next batch
	epoch uint64 // engine restarts
	open  []change
}

func newJournal(queue int) *journal {
	return &journal{batches: make(chan batch, queue)}
}

// stored records the blocks of c in each of spans.
func (j *journal) stored(c *chain, spans []span, host bool) {
	if j == nil {
		return
	}
	for _, s := range spans {
		for ; s.from < s.to; s.from += maxEventBlocks {
			part := span{s.from, min(s.to, s.from+maxEventBlocks)}
			j.open = append(j.open, change{
				kind:   blocksStored,
				host:   host,
				keys:   c.keys[part.from:part.to:part.to],
				parent: c.parent(part.from),
				root:   part.from == 0,
				tokens: c.blockTokens(part),
				ns:     c.ns,
			})
		}
	}
}

// removed records that each of keys has left; as in vLLM each is an event.
func (j *journal) removed(keys []blockKey, host bool) {
	if j == nil {
		return
	}
	for i := range keys {
		j.open = append(j.open, change{kind: blocksRemoved, host: host, keys: keys[i : i+1]})
	}
}

// cleared records that a tier is empty.
func (j *journal) cleared(host bool) {
	if j != nil {
		j.open = append(j.open, change{kind: blocksCleared, host: host})
	}
}

// commit ends a step: what it recorded becomes one batch.
func (j *journal) commit() {
	if j == nil || len(j.open) == 0 {
		return
	}
	j.push()
}

// restart begins the numbers anew, as a new engine process does, and says so
// with an empty batch that is not to be published.
func (j *journal) restart() {
	if j == nil {
		return
	}
	j.open = nil
	j.seq, j.epoch = 0, j.epoch+1
	j.push()
	j.seq = 0
}

func (j *journal) push() {
	b := batch{seq: j.seq, epoch: j.epoch, at: time.Now(), changes: j.open}
	j.seq++
	j.open = nil
	select {
	case j.batches <- b:
	default:
		j.dropped.Add(1)
	}
}
