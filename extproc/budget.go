package extproc

import "sync/atomic"

// budget bounds the bytes that all streams hold together. Safe for concurrent
// use.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes, or reports that they would go over the limit.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

// give returns n bytes that were taken.
func (b *budget) give(n int64) { b.used.Add(-n) }
