package zmqsock

import "sync"

// queue is a bounded queue of whole messages between many producers and one
// consumer. What the consumer has taken counts against the bounds until it
// says that it is done with it. It never blocks.
type queue[T any] struct {
	maxItems, maxBytes int
	wake               chan struct{} // holds a token when the consumer has reason to look

	mu struct {
		sync.Mutex
		items        []T
		count, bytes int  // waiting and taken
		marked       bool // the last item that waits is a mark
		finished     bool
	}
}

func newQueue[T any](maxItems, maxBytes int) *queue[T] {
	return &queue[T]{maxItems: maxItems, maxBytes: maxBytes, wake: make(chan struct{}, 1)}
}

// push adds item, or reports false because the queue is full or finished.
func (q *queue[T]) push(item T, size int) bool {
	q.mu.Lock()
	full := q.mu.count >= q.maxItems || q.mu.bytes+size > q.maxBytes
	if q.mu.finished || (full && q.mu.count > 0) {
		q.mu.Unlock()
		return false
	}
	q.mu.items = append(q.mu.items, item)
	q.mu.count++
	q.mu.bytes += size
	q.mu.marked = false
	q.mu.Unlock()
	q.signal()
	return true
}

// mark notes that a push was refused where it would have been: by an item of no
// size, one for all that are refused in a row, which note changes. There is room
// for it always.
func (q *queue[T]) mark(note func(*T)) {
	q.mu.Lock()
	if !q.mu.marked {
		q.mu.items = append(q.mu.items, *new(T))
		q.mu.count++
		q.mu.marked = true
	}
	note(&q.mu.items[len(q.mu.items)-1])
	q.mu.Unlock()
	q.signal()
}

// finish makes every later push fail; what is queued can still be taken.
func (q *queue[T]) finish() {
	q.mu.Lock()
	q.mu.finished = true
	q.mu.Unlock()
	q.signal()
}

func (q *queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns all that waits, in order, and keeps spare's memory for what
// comes next. ended: the queue is finished and this was the last of it.
func (q *queue[T]) take(spare []T) (items []T, ended bool) {
	clear(spare)
	q.mu.Lock()
	defer q.mu.Unlock()
	items, q.mu.items, q.mu.marked = q.mu.items, spare[:0], false
	return items, q.mu.finished
}

// done gives back the room of items that were taken.
func (q *queue[T]) done(items, bytes int) {
	q.mu.Lock()
	q.mu.count -= items
	q.mu.bytes -= bytes
	q.mu.Unlock()
}
