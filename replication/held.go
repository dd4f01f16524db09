package replication

import (
	"container/heap"
	"container/list"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// Limits of what is kept for partitions that may come.
const (
	maxHeld     = 4096
	maxHeldName = 1024 // bytes of model and group together
	heldLife    = time.Minute
)

// holding keeps the events of partitions that are not here, the newest of each
// session. Nobody knows which of them will come. So when it is full an event takes
// the place of one of the partition that has most, if its own has less: neither a
// partition that is never here nor many of them leave another without its share.
type holding struct {
	parts map[fleet.Partition]*heldPart
	most  heldHeap
	size  int // events
}

type heldPart struct {
	partition fleet.Partition
	events    map[heldKey]*list.Element // of *held
	oldest    list.List
	pos       int // in the heap
}

type heldKey struct {
	session string
	floor   bool
}

type held struct {
	event affinity.Event
	since time.Time
}

func (h *held) key() heldKey { return heldKey{h.event.Session, h.event.Kind == affinity.EventUnpinned} }

// add keeps an event, if it may, and says what became of it: Held, Stale, Invalid
// or OtherPartition. pushed tells whether another one had to go.
func (hs *holding) add(now time.Time, p fleet.Partition, ev affinity.Event) (d Disposition, pushed bool) {
	if ev.Session == "" || len(ev.Session) > affinity.MaxSessionBytes || len(p.Model)+len(p.Group) > maxHeldName {
		return Invalid, false // before its turn: it must not be kept
	}
	h, hp := &held{ev, now}, hs.parts[p]
	own := 0
	if hp != nil {
		own = len(hp.events)
		if at := hp.events[h.key()]; at != nil {
			if older(ev, at.Value.(*held).event) {
				return Stale, false
			}
			at.Value = h
			hp.oldest.MoveToBack(at)
			return Held, false
		}
	}
	if hs.size >= maxHeld {
		if own+1 >= len(hs.most[0].events) {
			return OtherPartition, false
		}
		hs.drop(hs.most[0])
		pushed = true
	}
	if hp == nil {
		hp = &heldPart{partition: p, events: make(map[heldKey]*list.Element)}
		hs.parts[p] = hp
		heap.Push(&hs.most, hp)
	}
	hp.events[h.key()] = hp.oldest.PushBack(h)
	hs.size++
	heap.Fix(&hs.most, hp.pos)
	return Held, pushed
}

// drop drops the partition's oldest event, and with the last one the partition.
func (hs *holding) drop(hp *heldPart) {
	h := hp.oldest.Remove(hp.oldest.Front()).(*held)
	delete(hp.events, h.key())
	hs.size--
	if len(hp.events) > 0 {
		heap.Fix(&hs.most, hp.pos)
		return
	}
	heap.Remove(&hs.most, hp.pos)
	delete(hs.parts, hp.partition)
}

// take returns the events of a partition, oldest first, and forgets them.
func (hs *holding) take(hp *heldPart) (events []held) {
	for l := hp.oldest.Front(); l != nil; l = l.Next() {
		events = append(events, *l.Value.(*held))
	}
	heap.Remove(&hs.most, hp.pos)
	delete(hs.parts, hp.partition)
	hs.size -= len(events)
	return events
}

// hold keeps an event for when its partition comes.
func (c *Core) hold(now time.Time, p fleet.Partition, ev affinity.Event) Disposition {
	d, pushed := c.held.add(now, p, ev)
	if pushed {
		c.count(OtherPartition)
	}
	return d
}

// releaseHeld applies what was held for partitions that are there now, with the
// life that is left of it, and drops what was held for too long.
func (c *Core) releaseHeld(now time.Time) {
	for _, hp := range c.held.parts {
		if table, served := c.cfg.Sessions.Table(hp.partition); served {
			for _, h := range c.held.take(hp) {
				if h.event.Life < 0 {
					h.event.Life = c.plainLife()
				}
				h.event.Life -= now.Sub(h.since)
				c.count(dispositionOf(table.Apply(h.event)))
			}
			continue
		}
		for len(hp.events) > 0 && now.Sub(hp.oldest.Front().Value.(*held).since) >= heldLife {
			c.held.drop(hp)
			c.count(OtherPartition)
		}
	}
}

// heldHeap has the partition with most events on top.
type heldHeap []*heldPart

func (h heldHeap) Len() int           { return len(h) }
func (h heldHeap) Less(i, j int) bool { return len(h[i].events) > len(h[j].events) }
func (h heldHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
func (h *heldHeap) Push(x any) {
	hp := x.(*heldPart)
	hp.pos = len(*h)
	*h = append(*h, hp)
}
func (h *heldHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
