package index

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mooring/kvstate"
)

// The size that the aims are stated for.
const (
	benchWorkers = 8
	benchBlocks  = 250_000 // of each worker
	benchPrompt  = 512     // blocks of a conversation
)

// benchOwner returns the n-th worker's owner.
func benchOwner(n int) Owner { return Owner{Key: kvstate.WorkerKey(benchWorker(n))} }

func benchWorker(n int) kvstate.Worker { return kvstate.Worker{WorkerID: uint64(n) + 1} }

// benchProjection has every worker's own owner, by one cache owner each.
func benchProjection(workers int) *kvstate.Projection {
	var rs []kvstate.Resolution
	for n := range workers {
		id := kvstate.CacheOwnerID{Pool: kvstate.PoolID{DC: kvstate.DCID(n)}}
		rs = append(rs, kvstate.Resolution{Owner: id, State: kvstate.Ready, Worker: benchWorker(n)})
	}
	return project(rs...)
}

// conversation returns the blocks of one: the system prompt is everybody's, the
// rest the conversation's own. External hashes are the worker's.
func conversation(worker, number int) []kvstate.Block {
	blocks := make([]kvstate.Block, benchPrompt)
	seed := rand.New(rand.NewPCG(uint64(number), 7))
	own := rand.New(rand.NewPCG(uint64(number), uint64(worker)))
	for i := range blocks {
		local := seed.Uint64()
		if i < 32 {
			local = uint64(i) + 1
		}
		blocks[i] = kvstate.Block{External: own.Uint64(), Local: local}
	}
	return blocks
}

func locals(blocks []kvstate.Block) (local []uint64) {
	for _, b := range blocks {
		local = append(local, b.Local)
	}
	return local
}

// conversations is how many of them make up benchBlocks.
const conversations = 1 + (benchBlocks-32)/(benchPrompt-32)

// fill stores benchBlocks for each worker, in conversations, one in share of which
// is also another worker's; 0 is none.
func fill(tb testing.TB, ix *Index, share int) {
	for n := range conversations {
		for w := range benchWorkers {
			of := w*1_000_000 + n
			if share > 0 && n%share == 0 {
				of = w/2*1_000_000 + n
			}
			if out := ix.Store(benchOwner(w), kvstate.Device, 0, false, withExternals(w, conversation(w, of))); out.Stored+out.Repeated != benchPrompt {
				tb.Fatalf("%+v", out)
			}
		}
	}
}

// withExternals gives the shared system prompt one name for each worker.
func withExternals(worker int, blocks []kvstate.Block) []kvstate.Block {
	for i := range 32 {
		blocks[i].External = uint64(worker)<<32 | uint64(i)
	}
	return blocks
}

// prompts returns look-ups that are all there, half there, and not there: 1,024 of
// each, so that they do not stay in the processor's caches.
func prompts() map[string][][]uint64 {
	hit, half, miss := [][]uint64{}, [][]uint64{}, [][]uint64{}
	for i := range 1024 {
		local := locals(conversation(0, i%benchWorkers*1_000_000+i/benchWorkers*4+2))
		hit = append(hit, local)
		h := slices.Clone(local)
		h[benchPrompt/2]++
		half = append(half, h)
		m := slices.Clone(local)
		m[0]++
		miss = append(miss, m)
	}
	return map[string][][]uint64{"all": hit, "half": half, "none": miss}
}

// BenchmarkMatch looks prompts of 512 blocks up among 2,000,000 blocks: as stored,
// and once they were removed and stored again all over the memory.
func BenchmarkMatch(b *testing.B) {
	ix := newIndex(DefaultMaxBlocks, newMetrics())
	fill(b, ix, 4)
	p := benchProjection(benchWorkers)
	for _, age := range []string{"fresh", "aged"} {
		if age == "aged" {
			scatter(ix)
		}
		for _, name := range []string{"all", "half", "none"} {
			list := prompts()[name]
			b.Run(age+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				var m Matches
				i, began := 0, cpuTime()
				for b.Loop() {
					ix.Match(p, list[i%len(list)], &m)
					i++
				}
				b.ReportMetric(float64(cpuTime()-began)/float64(i), "cpu-ns/op")
				b.ReportMetric(float64(longest(m.All())), "blocks")
				b.ReportMetric(float64(len(m.All())), "workers")
			})
		}
	}
}

func longest(found []Match) (blocks int) {
	for _, m := range found {
		blocks = max(blocks, m.Blocks())
	}
	return blocks
}

// scatter removes every fourth conversation block by block in random order, and stores
// new ones a few blocks at a time in turn, so that neighbours in the tree are none
// in memory.
func scatter(ix *Index) {
	rng := rand.New(rand.NewPCG(1, 1))
	for w := range benchWorkers {
		var gone []uint64
		for n := 2; n < conversations; n += 4 {
			for _, b := range conversation(w, w*1_000_000+n)[32:] {
				gone = append(gone, b.External)
			}
		}
		rng.Shuffle(len(gone), func(i, j int) { gone[i], gone[j] = gone[j], gone[i] })
		ix.Remove(benchOwner(w), kvstate.Device, gone)
	}
	for at := 0; at < benchPrompt; at += 4 {
		for n := 2; n < conversations; n += 4 {
			for w := range benchWorkers {
				blocks := withExternals(w, conversation(w, w*1_000_000+n))
				if at == 0 {
					ix.Store(benchOwner(w), kvstate.Device, 0, false, blocks[:4])
				} else {
					ix.Store(benchOwner(w), kvstate.Device, blocks[at-1].External, true, blocks[at:at+4])
				}
			}
		}
	}
}

// BenchmarkMatchManyOwners has 1,024 workers that all hold the prompt, each with a
// cache owner that holds the second half in the host tier.
func BenchmarkMatchManyOwners(b *testing.B) {
	ix := newIndex(DefaultMaxBlocks, newMetrics())
	const workers = 1024
	p := benchProjection(workers)
	blocks := conversation(0, 0)
	for w := range workers {
		ix.Store(benchOwner(w), kvstate.Device, 0, false, blocks[:benchPrompt/2])
		id := kvstate.CacheOwnerID{Pool: kvstate.PoolID{DC: kvstate.DCID(w)}}
		ix.Store(Owner{Key: id.Key(), Domain: kvstate.CacheOwnerDomain, Engine: benchOwner(w).Key}, kvstate.HostPinned,
			blocks[benchPrompt/2-1].External, true, blocks[benchPrompt/2:])
	}
	local := locals(blocks)
	var m Matches
	b.ReportAllocs()
	for b.Loop() {
		ix.Match(p, local, &m)
	}
	b.ReportMetric(float64(len(m.All())), "workers")
}

// BenchmarkUpdates stores and removes blocks beside 2,000,000 others, in events of
// 16 blocks as engines send them; one op is one block stored or removed.
func BenchmarkUpdates(b *testing.B) {
	ix := newIndex(DefaultMaxBlocks, newMetrics())
	fill(b, ix, 4)
	const events = 4096
	var stores [events][]kvstate.Block
	var removes [events][]uint64
	for e := range stores {
		for _, block := range conversation(e%benchWorkers, 500_000_000+e)[32:48] {
			stores[e], removes[e] = append(stores[e], block), append(removes[e], block.External)
		}
	}
	b.ReportAllocs()
	n, began := 0, cpuTime()
	for b.Loop() {
		// One iteration is 16 blocks; the set is stored whole, then removed whole.
		e := n % events
		if n/events%2 == 0 {
			ix.Store(benchOwner(e%benchWorkers), kvstate.Device, 0, false, stores[e])
		} else {
			ix.Remove(benchOwner(e%benchWorkers), kvstate.Device, removes[e])
		}
		n++
	}
	b.ReportMetric(float64(n)*16/(cpuTime()-began).Seconds(), "blocks/cpu-s")
}

// cpuTime returns the processor time that the process had, which tells the cost on
// a machine that is busy with other things as well.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFill stores 2,000,000 blocks into an empty index, and measures the heap;
// then it clears a worker.
func BenchmarkFill(b *testing.B) {
	for _, share := range []int{0, 4} {
		b.Run(fmt.Sprintf("share=%d", share), func(b *testing.B) {
			var cleared time.Duration
			for b.Loop() {
				b.StopTimer()
				before := heap()
				ix := newIndex(DefaultMaxBlocks, newMetrics())
				b.StartTimer()
				fill(b, ix, share)
				b.StopTimer()
				b.ReportMetric(float64(heap()-before)/float64(ix.Len()), "B/pair")
				b.ReportMetric(float64(ix.Len()), "pairs")
				began := cpuTime()
				ix.Clear(benchOwner(0))
				cleared = cpuTime() - began
				b.StartTimer()
			}
			b.ReportMetric(float64(cleared.Milliseconds()), "clear-cpu-ms")
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// BenchmarkMatchBesideWriters measures look-ups one by one, while nobody and while
// eight writers store and remove as fast as they can.
func BenchmarkMatchBesideWriters(b *testing.B) {
	ix := newIndex(DefaultMaxBlocks, newMetrics())
	fill(b, ix, 4)
	p, list := benchProjection(benchWorkers), prompts()["all"]
	for _, writers := range []int{0, 8} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			var stop atomic.Bool
			var updates atomic.Int64
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					blocks := conversation(w, 600_000_000+w)[32:]
					var external []uint64
					for _, block := range blocks {
						external = append(external, block.External)
					}
					for !stop.Load() {
						ix.Store(benchOwner(w), kvstate.Device, 0, false, blocks)
						ix.Remove(benchOwner(w), kvstate.Device, external)
						updates.Add(2 * int64(len(blocks)))
					}
				})
			}
			var m Matches
			var took []time.Duration
			i := 0
			for b.Loop() {
				begin := time.Now()
				ix.Match(p, list[i%len(list)], &m)
				took = append(took, time.Since(begin))
				i++
			}
			stop.Store(true)
			wg.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
			b.ReportMetric(float64(took[len(took)*999/1000]), "p99.9-ns")
			b.ReportMetric(float64(updates.Load())/b.Elapsed().Seconds(), "blocks/s")
		})
	}
}
