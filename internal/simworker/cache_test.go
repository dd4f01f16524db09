package simworker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// A script of testdata/cache drives one cache. Keys are numbers.
//
//	new capacity=N
//	acquire who=NAME keys=(1,2) need=N
//	fill who=NAME keys=(1,2)
//	release who=NAME
//
// Every command prints the whole cache: idle blocks from the first to go to
// the last.
func TestCacheScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/cache", func(t *testing.T, path string) {
		var c *cache
		held := make(map[string]*holding)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var who string
			if d.HasArg("who") {
				d.ScanArgs(t, "who", &who)
			}
			switch d.Cmd {
			case "new":
				var capacity int
				d.ScanArgs(t, "capacity", &capacity)
				c = newCache(capacity)
			case "acquire":
				var need int
				d.ScanArgs(t, "need", &need)
				h, ok := c.acquire(scannedKeys(t, d), need)
				if !ok {
					return "must wait\n" + c.dump()
				}
				held[who] = &h
				return fmt.Sprintf("%d cached\n%s", len(h.pinned), c.dump())
			case "fill":
				c.fill(held[who], scannedKeys(t, d))
			case "release":
				c.release(held[who])
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			return c.dump()
		})
	})
}

func scannedKeys(t *testing.T, d *datadriven.TestData) []blockKey {
	var keys []blockKey
	for _, arg := range d.CmdArgs {
		if arg.Key != "keys" {
			continue
		}
		for _, v := range arg.Vals {
			n, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, blockKey{byte(n)})
		}
	}
	return keys
}

func (c *cache) dump() string {
	var pinned, idle []string
	for key, b := range c.blocks {
		if b.idle == nil {
			pinned = append(pinned, fmt.Sprintf("%dx%d", key[0], b.pins))
		}
	}
	slices.Sort(pinned)
	for e := c.idle.Front(); e != nil; e = e.Next() {
		idle = append(idle, strconv.Itoa(int(e.Value.(*block).key[0])))
	}
	return fmt.Sprintf("pinned [%s] reserved %d idle [%s] used %d/%d\n",
		strings.Join(pinned, " "), c.reserved, strings.Join(idle, " "), c.used(), c.capacity)
}

// Requests come and go at random; the cache must neither lose nor invent a
// block.
func TestCacheKeepsCount(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := newCache(20)
	var held []*holding
	var keys [][]blockKey
	for range 20_000 {
		if len(held) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(held))
			if rng.IntN(4) > 0 {
				c.fill(held[i], keys[i])
			}
			c.release(held[i])
			held, keys = slices.Delete(held, i, i+1), slices.Delete(keys, i, i+1)
		} else {
			// Chains share fronts, as conversations do.
			chain := make([]blockKey, 1+rng.IntN(6))
			for i := range chain {
				chain[i] = blockKey{byte(i), byte(rng.IntN(2))}
				if i > 0 {
					chain[i][2] = chain[i-1][1]<<4 | chain[i-1][2]
				}
			}
			if h, ok := c.acquire(chain[:rng.IntN(len(chain)+1)], len(chain)+rng.IntN(3)); ok {
				held, keys = append(held, &h), append(keys, chain)
			}
		}
		checkCount(t, c, held)
	}
	for _, h := range held {
		c.release(h)
	}
	if c.used() != 0 || c.reserved != 0 {
		t.Fatalf("after the last request: %s", c.dump())
	}
}

func checkCount(t *testing.T, c *cache, held []*holding) {
	t.Helper()
	reserved, pins := 0, make(map[blockKey]int)
	for _, h := range held {
		reserved += h.reserved
		for _, b := range h.pinned {
			pins[b.key]++
		}
	}
	if reserved != c.reserved || c.reserved+len(c.blocks) > c.capacity || len(pins) != len(c.blocks)-c.idle.Len() {
		t.Fatalf("reserved %d, pinned %d: %s", reserved, len(pins), c.dump())
	}
	for key, n := range pins {
		if b := c.blocks[key]; b == nil || b.pins != n || b.idle != nil {
			t.Fatalf("block %v has %+v, want %d pins", key, b, n)
		}
	}
}
