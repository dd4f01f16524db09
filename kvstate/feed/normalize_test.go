package feed

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"mooring/kvstate"
	"mooring/kvstate/blockhash"
)

// TestNormalize runs testdata/normalize. "batch size=2" gives a batch as JSON;
// each event answers with its change or the reason for none. The local hash of
// a block is shown as what it is the hash of: its tokens, the adapter, the salt,
// and the multimodal inputs. "new" forgets everything.
func TestNormalize(t *testing.T) {
	var n [2]normalizer
	var d decoder
	datadriven.RunTest(t, "testdata/normalize", func(t *testing.T, data *datadriven.TestData) string {
		if data.Cmd == "new" {
			n = [2]normalizer{}
			return ""
		}
		size := 2
		data.MaybeScanArgs(t, "size", &size)
		b, err := d.decode(pack(t, data.Input))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for i := range b.events {
			e := &b.events[i]
			domain, ok := domainOf(e)
			if !ok {
				fmt.Fprintln(&out, "dropped:", UnknownOwner)
				continue
			}
			c, why, ok := n[domain].normalize(e, domain, size)
			if !ok {
				fmt.Fprintln(&out, "dropped:", why)
				continue
			}
			out.WriteString(describe(&c, e, size) + "\n")
		}
		return out.String()
	})
}

func describe(c *change, e *event, size int) string {
	switch c.kind {
	case cleared:
		return fmt.Sprintf("clear %s", c.domain)
	case removed:
		return fmt.Sprintf("remove %s %s %v", c.domain, c.tier, c.hashes)
	}
	out := fmt.Sprintf("store %s %s", c.domain, c.tier)
	if c.hasParent {
		out += fmt.Sprintf(" after %d", c.parent)
	}
	for i, b := range c.blocks {
		window := e.tokens[i*size : (i+1)*size]
		if e.pairs {
			window = e.tokens[i*size : (i+1)*size+1]
		}
		out += fmt.Sprintf(" %d=%s", b.External, meaning(b.Local, window))
	}
	if c.short {
		out += " (short)"
	}
	return out
}

// meaning finds what a local hash is the hash of.
func meaning(local uint64, window []uint32) string {
	names := []string{"", "adapter-7", "s", "t"}
	inputs := []string{"", "x", strings.Repeat("ab", 32), "opaque"}
	for _, adapter := range names {
		for _, salt := range names {
			for i, a := range inputs {
				for _, b := range inputs[i:] {
					var mm []uint64
					for _, id := range []string{a, b} {
						if h, ok := blockhash.Multimodal(id); ok {
							mm = append(mm, h)
						}
					}
					for _, more := range [][]uint64{mm, append(slices.Clone(mm), 42)} {
						if blockhash.Block(window, more, blockhash.Seed(adapter, salt)) == local {
							return fmt.Sprintf("%v%s%s%s", window, given(" adapter ", adapter), given(" salt ", salt), given(" inputs ", strings.Trim(fmt.Sprint(a, " ", b, " ", len(more)-len(mm)), " 0")))
						}
					}
				}
			}
		}
	}
	return "?"
}

func given(name, value string) string {
	if value == "" {
		return ""
	}
	return name + value
}

// Salted blocks are remembered within a bound, those in use longest.
func TestSaltsBounded(t *testing.T) {
	var s salts
	s.put(1, 0)
	if s.young != nil {
		t.Error("an unsalted block took room")
	}
	for h := uint64(1); h < maxSalted*5/4; h++ {
		s.put(h, 7)
		if h%(maxSalted/4) == 0 && s.of(1).add != 7 {
			t.Fatalf("a block in use was forgotten at %d", h)
		}
	}
	if n := len(s.young) + len(s.old); n > maxSalted {
		t.Errorf("%d blocks remembered", n)
	}
	if s.of(2).add != 0 {
		t.Error("a block not in use is still remembered")
	}
}

// Groups are learned within a bound.
func TestGroupsBounded(t *testing.T) {
	var n normalizer
	for g := range uint64(2 * maxGroups) {
		n.attention(&event{kind: stored, hasGroup: true, group: g, attention: []byte("mamba")})
	}
	if len(n.groups) != maxGroups {
		t.Errorf("%d groups", len(n.groups))
	}
	if why, ok := n.attention(&event{kind: stored, hasGroup: true, group: 3}); ok || why != NonMainGroup {
		t.Errorf("group 3: %s", why)
	}
	if _, why, ok := n.normalize(&event{kind: cleared}, kvstate.WorkerDomain, 0); !ok {
		t.Errorf("clear: %s", why)
	}
	if len(n.groups) != maxGroups {
		t.Error("a clear made the groups forgotten")
	}
}
