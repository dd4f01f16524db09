package replication

import (
	"encoding/binary"
	"testing"
	"time"
)

// digestWith returns the sums of a peer that has something in the first n buckets.
func digestWith(n int) []byte {
	sums := make([]byte, digestBytes)
	for i := range n {
		binary.BigEndian.PutUint64(sums[8*i:], 1)
	}
	return sums
}

// TestSyncTimeoutCountsFromProgress has a peer tell its digest each half second: a
// repair that comes forward is waited for, to a bound.
func TestSyncTimeoutCountsFromProgress(t *testing.T) {
	const every = 500 * time.Millisecond
	for _, c := range []struct {
		name     string
		differ   func(n int) int // in how many buckets, at its n-th digest; nil: nobody answers
		timedOut bool
		from, to time.Duration // when it is ready
	}{
		{"nobody answers", nil, true, 3 * time.Second, 3 * time.Second},
		{"the peer has nothing", func(int) int { return 0 }, false, every, every},
		{"nothing comes", func(int) int { return 10 }, true, 3500 * time.Millisecond, 3500 * time.Millisecond},
		{"only what is on its way", func(n int) int { return 10 + n%2 }, true, 3500 * time.Millisecond, 4500 * time.Millisecond},
		{"it ends after 10 s", func(n int) int { return 20 - n }, false, 10 * time.Second, 11 * time.Second},
		{"it comes forward each 2 s", func(n int) int { return 6 - n/4 }, false, 12 * time.Second, 13 * time.Second},
		{"it gets stuck after 5 s", func(n int) int { return max(20-n, 10) }, true, 8 * time.Second, 9 * time.Second},
		{"it would take 100 s", func(n int) int { return 200 - n }, true, 30 * time.Second, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			core, _ := newBenchCore(t, 1, 1000)
			start, digests := time.Now(), 0
			for now := start; ; now = now.Add(every) {
				if c.differ != nil && now.After(start) {
					tell(t, core, now, 2, &SyncMessage{Type: DigestOf, Partition: benchPart, Sums: digestWith(c.differ(digests))})
					tell(t, core, now, 2, &SyncMessage{Type: Alive, WriterID: 2, Digested: true})
					digests++
				}
				core.Tick(now)
				core.Flush(now)
				if ready, timedOut := core.Ready(); ready {
					if took := now.Sub(start); timedOut != c.timedOut || took < c.from || took > c.to {
						t.Errorf("ready after %v, timed out %v; want %v to %v, %v", took, timedOut, c.from, c.to, c.timedOut)
					}
					return
				}
			}
		})
	}
}
