package kvstate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"mooring/kvstate"
)

// Inputs: one owner whose records are alone, as the reconciler passes them.
func BenchmarkResolve(b *testing.B) {
	mismatched, detached := ready(), ready()
	mismatched.Status.CacheOwnerReady = false
	detached.Attachments = nil
	for name, in := range map[string]kvstate.Inputs{"ready": ready(), "status_mismatch": mismatched, "no_attachment": detached} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				kvstate.Resolve(in)
			}
		})
	}
}

func many(n int) []kvstate.Resolution {
	rs := make([]kvstate.Resolution, n)
	for i := range rs {
		rs[i] = readyOn(numbered(i), uint64(i))
	}
	return rs
}

// BenchmarkUpdate changes one owner of many: what a change of one engine costs.
func BenchmarkUpdate(b *testing.B) {
	for _, owners := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("owners=%d", owners), func(b *testing.B) {
			c := kvstate.NewController()
			c.Publish(many(owners))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.Update(readyOn(numbered(i%owners), uint64(i+owners)))
			}
		})
	}
}

// BenchmarkPublish builds the whole projection: what a start costs.
func BenchmarkPublish(b *testing.B) {
	for _, owners := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("owners=%d", owners), func(b *testing.B) {
			c, rs := kvstate.NewController(), many(owners)
			b.ReportAllocs()
			for b.Loop() {
				c.Publish(rs)
			}
		})
	}
}

// BenchmarkMapCopy is the alternative to shards: copy a whole map for one change.
func BenchmarkMapCopy(b *testing.B) {
	from := make(map[kvstate.OwnerKey]kvstate.Worker)
	for _, r := range many(10_000) {
		from[r.Owner.Key()], from[kvstate.WorkerKey(r.Worker)] = r.Worker, r.Worker
	}
	b.ReportAllocs()
	for b.Loop() {
		next := make(map[kvstate.OwnerKey]kvstate.Worker, len(from))
		maps.Copy(next, from)
	}
}

func BenchmarkProjectionWorker(b *testing.B) {
	for _, owners := range []int{8, 10_000} {
		c := kvstate.NewController()
		c.Publish(many(owners))
		var keys []kvstate.OwnerKey
		for i := range min(owners, 1024) {
			keys = append(keys, numbered(i*owners/min(owners, 1024)).Key())
		}
		b.Run(fmt.Sprintf("owners=%d", owners), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, _, ok := c.Projection().Worker(keys[i%len(keys)]); !ok {
					b.Fatal("lost")
				}
			}
		})
	}
}

func BenchmarkOwnerKey(b *testing.B) {
	o, w := owner(4), worker()
	b.Run("cache_owner", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			o.Key()
		}
	})
	b.Run("worker", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			kvstate.WorkerKey(w)
		}
	})
}

// dump is 1,000 store events of 8 blocks of one owner, as a recovery holds them.
func dump() []kvstate.RouterEvent {
	o := owner(4)
	events := make([]kvstate.RouterEvent, 1000)
	for i := range events {
		e := kvstate.RouterEvent{WorkerID: 17, Tier: kvstate.HostPinned, Domain: kvstate.InDomain(kvstate.CacheOwnerDomain), EventID: uint64(i),
			Kind: kvstate.Stored, StateSource: &o}
		for j := range 8 {
			e.Store.Blocks = append(e.Store.Blocks, kvstate.Block{External: uint64(i*8+j) << 40, Local: uint64(i*8+j) << 41})
		}
		events[i] = e
	}
	return events
}

func BenchmarkDecodeEvents(b *testing.B) {
	payload := pack(b, dump()...)
	text, err := json.Marshal(kvstate.EventsReply{Events: dump()})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("msgpack", func(b *testing.B) {
		b.SetBytes(int64(len(payload)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := kvstate.DecodeEvents(payload); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			var reply kvstate.EventsReply
			if err := json.Unmarshal(text, &reply); err != nil {
				b.Fatal(err)
			}
		}
	})
}
