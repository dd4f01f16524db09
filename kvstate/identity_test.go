package kvstate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mooring/kvstate"
)

func entries(t *testing.T, kv map[string]string) kvstate.ExplicitMap {
	t.Helper()
	m, err := kvstate.NewExplicitMap(kv)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestGoldenVectors holds the vectors of the base, section 1.6.
func TestGoldenVectors(t *testing.T) {
	hosted := func(id uint64) string { return strconv.FormatUint(id, 10) }
	for _, row := range []struct{ what, got, want string }{
		{"default semantics", kvstate.DefaultCacheSemantics("meta/llama", 512, 1).String(), "7d31eb9019357572470605f4a8be687e"},
		{"default scope", kvstate.DefaultRoutingScope(kvstate.EndpointID{Namespace: "prod", Component: "router", Name: "generate"}).String(), "18270d3ba03effaec8d167ba02c7752d"},
		{"explicit semantics", kvstate.ExplicitCacheSemantics(entries(t, map[string]string{"weights": "revision-a", "mapping": "tp2"}), 512, 1).String(), "a02dfb3f65eca4e06e837a96902938fd"},
		{"dc", hosted(uint64(kvstate.DeriveDC("dc-a"))), "356084303347317832"},
		{"dc in hex", kvstate.DeriveDC("dc-a").String(), "04f110c98b1bfc48"},
		{"attachment 41, 7", hosted(kvstate.AttachmentRecordID(41, 7)), "7501737897342697"},
		{"host 1", hosted(kvstate.HostRecordID(1)), "4076289081957849"},
		{"host 17", hosted(kvstate.HostRecordID(17)), "7176000479352457"},
		{"worker key", kvstate.WorkerKey(kvstate.Worker{WorkerID: 17, DPRank: 3}).String(), "c2397c8746719d190ad0de14a12a7de6"},
		{"owner key", owner(4).Key().String(), "94b32739a8859bab011e1efea911c9f9"},
	} {
		if row.got != row.want {
			t.Errorf("%s: %s, want %s", row.what, row.got, row.want)
		}
	}
}

func TestAttachmentRecordIDVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/attachment_record_id.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Publisher  uint64 `json:"publisher_id,string"`
		Generation uint64 `json:"generation,string"`
		Want       uint64 `json:"attachment_record_id"`
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 15 {
		t.Fatalf("%d vectors, want all of them", len(vectors))
	}
	seen := make(map[uint64]bool)
	for _, v := range vectors {
		got := kvstate.AttachmentRecordID(v.Publisher, v.Generation)
		if got != v.Want {
			t.Errorf("publisher %d, generation %d: %d, want %d", v.Publisher, v.Generation, got, v.Want)
		}
		if got == v.Publisher || seen[got] || got < 1 || got >= 1<<53 {
			t.Errorf("publisher %d, generation %d: %d repeats, or is no 53-bit id", v.Publisher, v.Generation, got)
		}
		seen[got] = true
	}
}

func TestDisplayForms(t *testing.T) {
	o := owner(4)
	o.Pool.DC = kvstate.DeriveDC("dc-a")
	one, two, four := strings.Repeat("01", 16), strings.Repeat("02", 16), strings.Repeat("04", 16)
	if got, want := o.String(), one+":"+two+"/04f110c98b1bfc48/"+four; got != want {
		t.Errorf("owner: %s, want %s", got, want)
	}
	if got := kvstate.DCID(1).String(); got != "0000000000000001" {
		t.Errorf("dc 1: %s", got)
	}
	if got := worker().String(); got != "17:3" {
		t.Errorf("worker: %s", got)
	}
}

func TestSourceIsPartOfAnIdentity(t *testing.T) {
	a, b := owner(4), owner(4)
	b.Slot.Source = kvstate.DefaultDerived
	if a == b || a.Key() == b.Key() {
		t.Error("same bytes with another source are the same owner")
	}
	if a.Pool.IndexerDomain.UsesDefaults() {
		t.Error("an explicit domain relies on defaults")
	}
	b.Pool.IndexerDomain.RoutingScope.Source = kvstate.DefaultDerived
	if !b.Pool.IndexerDomain.UsesDefaults() {
		t.Error("a default scope is not seen")
	}
}

func TestDerivationsNeverAlias(t *testing.T) {
	m := entries(t, map[string]string{"a": "b"})
	slot := func(name string) kvstate.StableDPSlotID {
		id, err := kvstate.ExplicitStableDPSlot(name)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	all := map[string]kvstate.Digest{
		"default semantics":             kvstate.DefaultCacheSemantics("a", 16, 1).Digest,
		"another block size":            kvstate.DefaultCacheSemantics("a", 32, 1).Digest,
		"another hash format":           kvstate.DefaultCacheSemantics("a", 16, 2).Digest,
		"explicit semantics":            kvstate.ExplicitCacheSemantics(m, 16, 1).Digest,
		"explicit, another block size":  kvstate.ExplicitCacheSemantics(m, 32, 1).Digest,
		"explicit, another hash format": kvstate.ExplicitCacheSemantics(m, 16, 2).Digest,
		"default scope":                 kvstate.DefaultRoutingScope(kvstate.EndpointID{Namespace: "ab", Component: "c", Name: "d"}).Digest,
		"its neighbour":                 kvstate.DefaultRoutingScope(kvstate.EndpointID{Namespace: "a", Component: "bc", Name: "d"}).Digest,
		"explicit scope":                kvstate.ExplicitRoutingScope(m).Digest,
		"explicit neighbour":            kvstate.ExplicitRoutingScope(entries(t, map[string]string{"ab": "c"})).Digest,
		"explicit neighbour 2":          kvstate.ExplicitRoutingScope(entries(t, map[string]string{"a": "bc"})).Digest,
		"default slot":                  kvstate.DefaultStableDPSlot("17", "3").Digest,
		"its neighbour slot":            kvstate.DefaultStableDPSlot("173").Digest,
		"explicit slot":                 slot("a").Digest,
		"another slot":                  slot("b").Digest,
	}
	seen := make(map[kvstate.Digest]string)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if other, taken := seen[all[name]]; taken {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[all[name]] = name
	}
}

// TestExplicitMergesDeployments: explicit material replaces the defaults, so that
// two deployments can share a domain, while the data centre still separates pools.
func TestExplicitMergesDeployments(t *testing.T) {
	a := entries(t, map[string]string{"weights": "r1", "mapping": "tp2"})
	b := entries(t, map[string]string{"mapping": "tp2", "weights": "r1"})
	domain := func(m kvstate.ExplicitMap) kvstate.IndexerDomainID {
		return kvstate.IndexerDomainID{CacheSemantics: kvstate.ExplicitCacheSemantics(m, 16, 1), RoutingScope: kvstate.ExplicitRoutingScope(m)}
	}
	if domain(a) != domain(b) {
		t.Error("the order of entries matters")
	}
	east := kvstate.PoolID{IndexerDomain: domain(a), DC: kvstate.DeriveDC("east")}
	west := kvstate.PoolID{IndexerDomain: domain(b), DC: kvstate.DeriveDC("west")}
	if east == west {
		t.Error("two data centres share a pool")
	}
}

func TestExplicitMapLimits(t *testing.T) {
	many := make(map[string]string)
	for i := range kvstate.MaxExplicitEntries {
		many[fmt.Sprint(i)] = "v"
	}
	more := maps.Clone(many)
	more["one more"] = "v"
	long := strings.Repeat("x", kvstate.MaxExplicitValueLength)
	for _, row := range []struct {
		name    string
		entries map[string]string
		want    error
	}{
		{"nothing", nil, kvstate.ErrExplicitEmpty},
		{"one", map[string]string{"k": "v"}, nil},
		{"the most entries", many, nil},
		{"one entry more", more, kvstate.ErrExplicitTooMany},
		{"empty key", map[string]string{"": "v"}, kvstate.ErrExplicitEmptyKey},
		{"empty value", map[string]string{"k": ""}, kvstate.ErrExplicitEmptyValue},
		{"longest key", map[string]string{long[:kvstate.MaxExplicitKeyLength]: "v"}, nil},
		{"key too long", map[string]string{long[:kvstate.MaxExplicitKeyLength+1]: "v"}, kvstate.ErrExplicitKeyTooLong},
		{"longest value", map[string]string{"k": long}, nil},
		{"value too long", map[string]string{"k": long + "x"}, kvstate.ErrExplicitValueTooLong},
		{"no UTF-8", map[string]string{"k": "\xff"}, kvstate.ErrExplicitNotUTF8},
	} {
		if _, err := kvstate.NewExplicitMap(row.entries); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.name, err, row.want)
		}
	}
	if _, err := kvstate.ExplicitStableDPSlot(""); !errors.Is(err, kvstate.ErrExplicitEmptyValue) {
		t.Errorf("empty slot name: %v", err)
	}
}

func TestExplicitMapRefusesDuplicateKeys(t *testing.T) {
	var m kvstate.ExplicitMap
	if err := json.Unmarshal([]byte(`{"b":"1","a":"2"}`), &m); err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(m); err != nil || string(b) != `{"a":"2","b":"1"}` {
		t.Errorf("%s, %v", b, err)
	}
	for _, bad := range []string{`{"a":"1","a":"1"}`, `{"a":"1","\u0061":"2"}`, `{}`, `{"a":1}`} {
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestTiersOfMedia(t *testing.T) {
	for tier, media := range map[kvstate.Tier]string{
		kvstate.Device: "GPU DEVICE", kvstate.HostPinned: "CPU CPU_PINNED CPU_TIER1",
		kvstate.Disk: "CPU_TIER2 DISK NVME STORAGE", kvstate.External: "EXTERNAL NETWORK REMOTE SHARED",
	} {
		for _, medium := range strings.Fields(media) {
			if got, ok := kvstate.TierOfMedium(medium); !ok || got != tier {
				t.Errorf("%s: %s, %v; want %s", medium, got, ok, tier)
			}
		}
		if m := tier.Medium(); m != "" {
			if back, ok := kvstate.TierOfMedium(m); !ok || back != tier {
				t.Errorf("%s is published as %s", tier, m)
			}
		}
	}
	if kvstate.Device.Medium() != "" {
		t.Error("the device tier must omit its medium")
	}
	for _, medium := range []string{"", "gpu", "NVME9"} {
		if tier, ok := kvstate.TierOfMedium(medium); ok {
			t.Errorf("%q is %s", medium, tier)
		}
	}
}
