package index

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"mooring/kvstate"
)

// TestScripts replays testdata: each command is one operation, and prints its
// result and then everything that the index holds.
//
//	index [max=N]
//	store OWNER [tier=T] [after=HASH]     blocks on the lines below: external:local ...
//	remove OWNER [tier=T] HASH ...
//	clear OWNER
//	project OWNER=WORKER ...              c1=1:0, or c1=1:0! for a holed owner
//	match LOCAL ...
//
// OWNER is w1:0 (the worker domain of worker 1, rank 0) or c1 (cache owner 1), or
// c1@w1:0 with its engine.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{ix: newIndex(1000, newMetrics())}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(t, d)
			check(t, s.ix)
			return out
		})
	})
}

type script struct {
	ix         *Index
	projection *kvstate.Projection
	m          Matches
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	var args []string
	tier, parent, hasParent := kvstate.Device, uint64(0), false
	for _, a := range d.CmdArgs {
		switch {
		case a.Key == "tier":
			if err := tier.UnmarshalText([]byte(a.Vals[0])); err != nil {
				d.Fatalf(t, "%v", err)
			}
		case a.Key == "after":
			parent, hasParent = number(t, a.Vals[0]), true
		case a.Key == "max":
			s.ix = newIndex(int(number(t, a.Vals[0])), newMetrics())
		case len(a.Vals) == 1:
			args = append(args, a.Key+"="+a.Vals[0])
		default:
			args = append(args, a.Key)
		}
	}
	switch d.Cmd {
	case "index":
		return dump(s.ix)
	case "store":
		var blocks []kvstate.Block
		for _, f := range strings.Fields(d.Input) {
			external, local, _ := strings.Cut(f, ":")
			blocks = append(blocks, kvstate.Block{External: number(t, external), Local: number(t, local)})
		}
		out := s.ix.Store(parseOwner(t, args[0]), tier, parent, hasParent, blocks)
		return fmt.Sprintf("%+v\n%s", out, dump(s.ix))
	case "remove":
		return fmt.Sprintf("unknown: %d\n%s", s.ix.Remove(parseOwner(t, args[0]), tier, numbers(t, args[1:])), dump(s.ix))
	case "clear":
		s.ix.Clear(parseOwner(t, args[0]))
		return dump(s.ix)
	case "project":
		s.projection = parseProjection(t, args)
		return ""
	case "match":
		s.ix.Match(s.projection, numbers(t, args), &s.m)
		return matchText(s.m.All())
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

func matchText(found []Match) string {
	var b strings.Builder
	for _, m := range found {
		fmt.Fprintf(&b, "%s device=%d host_pinned=%d disk=%d external=%d", m.Worker, m.Device, m.HostPinned, m.Disk, m.External)
		if m.Holed {
			b.WriteString(" holed")
		}
		b.WriteString("\n")
	}
	return cmp.Or(b.String(), "nobody\n")
}

// dump prints the tree with its holders, then the names and orphans of each owner.
func dump(ix *Index) string {
	var b strings.Builder
	owners := slices.SortedFunc(maps.Values(ix.mu.owners), func(x, y *owner) int { return strings.Compare(ownerName(x.id), ownerName(y.id)) })
	places := map[string]string{}
	for _, own := range owners {
		for _, e := range allNames(own) {
			for id := e.node; id != root; id = ix.nodes.at(id).parent {
				places[place(ix, id)] = holderText(ix, owners, id)
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(places)) {
		fmt.Fprintf(&b, "%s %s\n", p, places[p])
	}
	for _, own := range owners {
		fmt.Fprintf(&b, "%s:", ownerName(own.id))
		for _, e := range slices.SortedFunc(slices.Values(allNames(own)), func(x, y name) int { return int(x.external) - int(y.external) }) {
			fmt.Fprintf(&b, " %d=%s%s", e.external, place(ix, e.node), countsText(e.counts[:]))
		}
		for _, x := range slices.Sorted(maps.Keys(own.orphan.blocks)) {
			o := own.orphan.blocks[x]
			fmt.Fprintf(&b, " %d(after %d: %d%s)", x, o.parent, o.local, countsText(o.counts[:]))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d pairs, %d nodes, %d orphans\n", ix.mu.pairs, ix.nodes.live, ix.mu.orphans)
	return b.String()
}

// countsText prints counts as [d2 h1 k1 e1]: two on the device, one in the host tier,
// on disk, and external.
func countsText[T uint8 | uint32](counts []T) string {
	var all []string
	for tier, n := range counts {
		if n > 0 {
			all = append(all, fmt.Sprintf("%c%d", "dhke"[tier], n))
		}
	}
	return fmt.Sprint(all)
}

func place(ix *Index, id uint32) string {
	if id == root {
		return ""
	}
	n := ix.nodes.at(id)
	return fmt.Sprintf("%s/%d", place(ix, n.parent), n.local)
}

func holderText(ix *Index, owners []*owner, id uint32) string {
	var all []string
	for _, own := range owners {
		for _, h := range masks(ix, ix.nodes.at(id)) {
			if h.key.bank() == int(own.slot/64) && h.mask&bitOf(own.slot) != 0 {
				all = append(all, fmt.Sprintf("%s:%s", ownerName(own.id), kvstate.Tier(h.key.tier())))
			}
		}
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

func ownerName(id ownerID) string {
	for n := range 10 {
		if id.key == cacheOwner(byte(n)).Key() {
			return fmt.Sprintf("c%d", n)
		}
		for rank := range 10 {
			if w := (kvstate.Worker{WorkerID: uint64(n), DPRank: uint32(rank)}); id.key == kvstate.WorkerKey(w) {
				return "w" + w.String()
			}
		}
	}
	return id.key.String()
}

func parseOwner(t *testing.T, s string) Owner {
	s, engine, _ := strings.Cut(s, "@")
	if s[0] == 'w' {
		return Owner{Key: kvstate.WorkerKey(parseWorker(t, s[1:]))}
	}
	o := Owner{Key: cacheOwner(byte(number(t, s[1:]))).Key(), Domain: kvstate.CacheOwnerDomain}
	if engine != "" {
		o.Engine = parseOwner(t, engine).Key
	}
	return o
}

func parseWorker(t *testing.T, s string) kvstate.Worker {
	id, rank, _ := strings.Cut(s, ":")
	return kvstate.Worker{WorkerID: number(t, id), DPRank: uint32(number(t, rank))}
}

func parseProjection(t *testing.T, args []string) *kvstate.Projection {
	var rs []kvstate.Resolution
	for _, a := range args {
		owner, worker, _ := strings.Cut(a, "=")
		worker, holed := strings.CutSuffix(worker, "!")
		w := parseWorker(t, worker)
		rs = append(rs, ready(byte(number(t, owner[1:])), w.WorkerID, w.DPRank, holed))
	}
	return project(rs...)
}

func numbers(t *testing.T, list []string) (all []uint64) {
	for _, s := range list {
		all = append(all, number(t, s))
	}
	return all
}

func number(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
