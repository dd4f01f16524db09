package kvstate_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"mooring/kvstate"
)

func allEvents() []kvstate.RouterEvent {
	rootless := kvstate.RouterEvent{WorkerID: 1, Kind: kvstate.Stored, Store: kvstate.StoreData{Blocks: []kvstate.Block{{External: 1<<64 - 1, Local: 128}}}}
	return []kvstate.RouterEvent{storeEvent(), removeEvent(), clearEvent(), rootless}
}

func pack(t testing.TB, events ...kvstate.RouterEvent) []byte {
	t.Helper()
	b, err := kvstate.AppendEvents(nil, events)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMessagePackRoundTrip(t *testing.T) {
	payload := pack(t, allEvents()...)
	batch, err := kvstate.DecodeEvents(payload)
	if err != nil || batch.Refused != 0 {
		t.Fatalf("%v, %d refused: %v", err, batch.Refused, batch.Why)
	}
	for i := range payload {
		payload[i] = 0xc1 // nothing may refer to it
	}
	if diff := cmp.Diff(allEvents(), batch.Events); diff != "" {
		t.Errorf("-sent +received:\n%s", diff)
	}
}

// TestMessagePackIsMapEncoded: other readers find the fields by name.
func TestMessagePackIsMapEncoded(t *testing.T) {
	var text bytes.Buffer
	if _, err := msgp.UnmarshalAsJSON(&text, pack(t, storeEvent())[1:]); err != nil {
		t.Fatal(err)
	}
	var asMsgPack, asJSON any
	if err := json.Unmarshal(text.Bytes(), &asMsgPack); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encode(t, storeEvent()), &asJSON); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asJSON, asMsgPack); diff != "" {
		t.Errorf("JSON and MessagePack name things differently:\n%s", diff)
	}
}

// TestMessagePackIsReadLeniently: keys in another order, wide and signed integers,
// unknown keys, and nil for what is optional.
func TestMessagePackIsReadLeniently(t *testing.T) {
	b := msgp.AppendArrayHeader(nil, 1)
	b = msgp.AppendMapHeader(b, 5)
	b = msgp.AppendNil(msgp.AppendString(b, "session_id"))
	b = msgp.AppendMapHeader(msgp.AppendString(b, "event"), 3)
	b = msgp.AppendMapHeader(msgp.AppendString(b, "data"), 1)
	b = msgp.AppendMapHeader(msgp.AppendString(b, "stored"), 3)
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "blocks"), 1)
	b = msgp.AppendMapHeader(b, 3)
	b = msgp.AppendNil(msgp.AppendString(b, "mm_extra_info"))
	b = msgp.AppendInt64(msgp.AppendString(b, "tokens_hash"), -5)
	b = append(msgp.AppendString(b, "block_hash"), 0xcf, 0, 0, 0, 0, 0, 0, 0, 1) // 1 as 64 bits
	b = msgp.AppendNil(msgp.AppendString(b, "parent_hash"))
	b = msgp.AppendNil(msgp.AppendString(b, "start_position"))
	b = append(msgp.AppendString(b, "event_id"), 0xd3, 0, 0, 0, 0, 0, 0, 0, 6) // 6 as signed 64 bits
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "from_the_future"), 2)
	b = msgp.AppendFloat64(msgp.AppendMapHeader(b, 0), 1)
	b = append(msgp.AppendString(b, "worker_id"), 0xce, 0, 0, 0, 17)
	b = msgp.AppendNil(msgp.AppendString(b, "state_source"))
	b = msgp.AppendBytes(msgp.AppendString(b, "more"), []byte("bin"))
	want := kvstate.RouterEvent{WorkerID: 17, EventID: 6, Kind: kvstate.Stored,
		Store: kvstate.StoreData{Blocks: []kvstate.Block{{External: 1, Local: 1<<64 - 5}}}}
	batch, err := kvstate.DecodeEvents(b)
	if err != nil || batch.Refused != 0 {
		t.Fatalf("%v, %v", err, batch.Why)
	}
	if diff := cmp.Diff([]kvstate.RouterEvent{want}, batch.Events); diff != "" {
		t.Error(diff)
	}
}

// TestOneBadEventDoesNotCostTheBatch puts each bad event between two good ones.
func TestOneBadEventDoesNotCostTheBatch(t *testing.T) {
	one := func(e kvstate.RouterEvent) []byte { return pack(t, e)[1:] }
	swap := func(e kvstate.RouterEvent, old, new string) []byte {
		b := one(e)
		if !bytes.Contains(b, []byte(old)) {
			t.Fatalf("no %q to replace", old)
		}
		return bytes.Replace(b, []byte(old), []byte(new), 1)
	}
	deep := msgp.AppendString([]byte{0x81}, "unknown")
	deep = append(deep, bytes.Repeat([]byte{0x91}, 10)...)
	for _, row := range []struct {
		name string
		bad  []byte
		want string
	}{
		{"no map", msgp.AppendUint64(nil, 7), "map"},
		{"an array of fields", msgp.AppendUint64([]byte{0x91}, 7), "map"},
		{"empty", []byte{0x80}, "worker_id"},
		{"unknown tier", swap(storeEvent(), "\xabhost_pinned", "\xabhost_pinnex"), "storage tier"},
		{"unknown kind", swap(storeEvent(), "\xa6stored", "\xa6moved!"), "event kind"},
		{"unknown source", swap(storeEvent(), "\xa8explicit", "\xa8guessed!"), "identity source"},
		{"domain nil", nilDomain(t), "residency_domain"},
		{"no block hash", swap(storeEvent(), "\xaablock_hash", "\xaablock_hasX"), "block_hash"},
		{"no text", swap(storeEvent(), "\xa3s-1", "\xa3s-\xff"), "UTF-8"},
		{"field twice", swap(removeEvent(), "\xacstorage_tier\xa6device", "\xa9worker_id\x07"), "twice"},
		{"deep", append(deep, 0xc0), "worker_id"},
		{"a span of three", swap(storeEvent(), "\x92\x00\x03", "\x93\x00\x03\x04"), "span"},
		{"two kinds", swap(removeEvent(), "\x81\xa7removed", "\x82\xa6stored\xc0\xa7removed"), "2 kinds"},
		{"a digest of 17", swap(storeEvent(), "\xdc\x00\x10", "\xdc\x00\x11\x01"), "17 numbers"},
		{"a digest with 256", swap(storeEvent(), "\xdc\x00\x10\x01", "\xdc\x00\x10\xcd\x01\x00"), "no byte"},
		{"rank of 33 bits", swap(storeEvent(), "\xa7dp_rank\x03", "\xa7dp_rank\xcf\x00\x00\x00\x01\x00\x00\x00\x00"), "32 bits"},
	} {
		payload := append(append(append([]byte{0x93}, one(clearEvent())...), row.bad...), one(removeEvent())...)
		batch, err := kvstate.DecodeEvents(payload)
		if err != nil || batch.Refused != 1 || len(batch.Events) != 2 || batch.Events[1].EventID != removeEvent().EventID {
			t.Errorf("%s: %v, %d refused, %d kept", row.name, err, batch.Refused, len(batch.Events))
			continue
		}
		if !strings.Contains(batch.Why.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, batch.Why, row.want)
		}
	}
}

// nilDomain is an event whose residency_domain is nil, which is not the same as none.
func nilDomain(t *testing.T) []byte {
	t.Helper()
	e := removeEvent()
	e.Domain = kvstate.InDomain(kvstate.WorkerDomain)
	return bytes.Replace(pack(t, e)[1:], []byte("\xa6worker"), []byte{0xc0}, 1)
}

// TestHostilePayloads: a claim is never believed before its bytes are there.
func TestHostilePayloads(t *testing.T) {
	for name, payload := range map[string][]byte{
		"nothing":               {},
		"no array":              {0x80},
		"2^32 events":           {0xdd, 0xff, 0xff, 0xff, 0xff},
		"2^32 fields":           {0x91, 0xdf, 0xff, 0xff, 0xff, 0xff},
		"ends early":            pack(t, storeEvent())[:60],
		"does not end":          append(pack(t, clearEvent()), 0xc0),
		"unused code":           {0x91, 0xc1},
		"deep but whole":        append(append([]byte{0x91}, bytes.Repeat([]byte{0x91}, 17)...), 0xc0),
		"2M arrays":             append([]byte{0x91}, bytes.Repeat([]byte{0x91}, 2_000_000)...),
		"2M maps":               append([]byte{0x91}, bytes.Repeat([]byte{0x81, 0xa0}, 1_000_000)...),
		"2^32 bytes of text":    {0x91, 0x81, 0xdb, 0xff, 0xff, 0xff, 0xff},
		"2^32 hashes, 1 there":  append([]byte("\x91\x81\xa5event\x81\xa4data\x81\xa7removed\x81\xacblock_hashes"), 0xdd, 0xff, 0xff, 0xff, 0xff, 0x01),
		"2^31 blocks, none":     append([]byte("\x91\x81\xa5event\x81\xa4data\x81\xa6stored\x81\xa6blocks"), 0xdd, 0x7f, 0xff, 0xff, 0xff),
		"extension that is not": {0x91, 0xc9, 0xff, 0xff, 0xff, 0xff, 0x01},
	} {
		allocated := testing.AllocsPerRun(1, func() {
			if batch, err := kvstate.DecodeEvents(payload); err == nil {
				t.Errorf("%s: %d events, %d refused", name, len(batch.Events), batch.Refused)
			}
		})
		if allocated > 100 {
			t.Errorf("%s: %v allocations", name, allocated)
		}
	}
}

// TestMemoryIsInProportion feeds the decoder what grows most in memory.
func TestMemoryIsInProportion(t *testing.T) {
	const count = 20_000
	removed := kvstate.RouterEvent{Kind: kvstate.Removed, Removed: make([]uint64, count)}
	spans := kvstate.RouterEvent{Kind: kvstate.Stored, Store: kvstate.StoreData{Blocks: make([]kvstate.Block, 1),
		MM: [][]kvstate.MMObject{{{Offsets: make([][2]uint64, count)}}}}}
	blocks := kvstate.RouterEvent{Kind: kvstate.Stored, Store: kvstate.StoreData{Blocks: make([]kvstate.Block, count)}}
	small := slices.Repeat([]kvstate.RouterEvent{{Kind: kvstate.Cleared}}, count)
	refused := func(one string) []byte {
		return append(msgp.AppendArrayHeader(nil, count), strings.Repeat(one, count)...)
	}
	for name, payload := range map[string][]byte{
		"hashes": pack(t, removed), "spans": pack(t, spans), "blocks": pack(t, blocks), "events": pack(t, small...),
		"empty events": refused("\x80"), "no events": refused("\xc0"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := kvstate.DecodeEvents(payload); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		growth := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(payload))
		t.Logf("%s: %.1f bytes for a byte", name, growth)
		if growth > 25 {
			t.Errorf("%s: more than 25", name)
		}
	}
}

// TestDomainRules is section 4.1 of the base.
func TestDomainRules(t *testing.T) {
	o := owner(4)
	worker, cache := kvstate.InDomain(kvstate.WorkerDomain), kvstate.InDomain(kvstate.CacheOwnerDomain)
	future := kvstate.WireDomain{Present: true, Name: "pod"}
	for _, row := range []struct {
		name string
		e    kvstate.RouterEvent
		want kvstate.Scope
		ok   bool
	}{
		{"legacy store", kvstate.RouterEvent{Kind: kvstate.Stored}, kvstate.Scope{Domain: kvstate.WorkerDomain}, true},
		{"legacy remove", kvstate.RouterEvent{Kind: kvstate.Removed}, kvstate.Scope{Domain: kvstate.WorkerDomain}, true},
		{"legacy clear", kvstate.RouterEvent{Kind: kvstate.Cleared}, kvstate.Scope{All: true}, true},
		{"worker store", kvstate.RouterEvent{Kind: kvstate.Stored, Domain: worker}, kvstate.Scope{Domain: kvstate.WorkerDomain}, true},
		{"worker clear", kvstate.RouterEvent{Kind: kvstate.Cleared, Domain: worker}, kvstate.Scope{Domain: kvstate.WorkerDomain}, true},
		{"owner store", kvstate.RouterEvent{Kind: kvstate.Stored, Domain: cache, Tier: kvstate.Disk, StateSource: &o}, kvstate.Scope{Domain: kvstate.CacheOwnerDomain}, true},
		{"owner store, no owner", kvstate.RouterEvent{Kind: kvstate.Stored, Domain: cache, Tier: kvstate.Disk}, kvstate.Scope{}, false},
		{"owner store on device", kvstate.RouterEvent{Kind: kvstate.Stored, Domain: cache, StateSource: &o}, kvstate.Scope{}, false},
		{"owner remove on device", kvstate.RouterEvent{Kind: kvstate.Removed, Domain: cache, StateSource: &o}, kvstate.Scope{}, false},
		{"owner clear on device", kvstate.RouterEvent{Kind: kvstate.Cleared, Domain: cache, StateSource: &o}, kvstate.Scope{Domain: kvstate.CacheOwnerDomain}, true},
		{"owner clear, no owner", kvstate.RouterEvent{Kind: kvstate.Cleared, Domain: cache}, kvstate.Scope{}, false},
		{"unknown", kvstate.RouterEvent{Kind: kvstate.Stored, Domain: future}, kvstate.Scope{}, false},
		{"unknown clear", kvstate.RouterEvent{Kind: kvstate.Cleared, Domain: future}, kvstate.Scope{}, false},
		{"empty", kvstate.RouterEvent{Kind: kvstate.Stored, Domain: kvstate.WireDomain{Present: true}}, kvstate.Scope{}, false},
	} {
		if got, err := row.e.Scope(); got != row.want || (err == nil) != row.ok {
			t.Errorf("%s: %+v, %v", row.name, got, err)
		}
	}
}

// TestRepeatedOwnerIsShared: a recovery of many events holds its owner once.
func TestRepeatedOwnerIsShared(t *testing.T) {
	other := storeEvent()
	another := owner(5)
	other.StateSource = &another
	events := []kvstate.RouterEvent{storeEvent(), storeEvent(), other, storeEvent()}
	batch, err := kvstate.DecodeEvents(pack(t, events...))
	if err != nil {
		t.Fatal(err)
	}
	var reply kvstate.EventsReply
	if err := json.Unmarshal(encode(t, kvstate.EventsReply{Events: events}), &reply); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]kvstate.RouterEvent{"MessagePack": batch.Events, "JSON": reply.Events} {
		if diff := cmp.Diff(events, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if got[0].StateSource != got[1].StateSource {
			t.Errorf("%s: one owner twice", name)
		}
	}
}

func FuzzMessagePack(f *testing.F) {
	f.Add(pack(f, allEvents()...))
	f.Add(pack(f))
	for _, e := range allEvents() {
		f.Add(pack(f, e))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		first, err := kvstate.DecodeEvents(payload)
		if err != nil {
			return
		}
		second, err := kvstate.DecodeEvents(pack(t, first.Events...))
		if err != nil || second.Refused != 0 {
			t.Fatalf("what was read is not read back: %v, %v", err, second.Why)
		}
		if diff := cmp.Diff(fullEvents(first.Events), fullEvents(second.Events)); diff != "" {
			t.Fatal(diff)
		}
		var third kvstate.EventsReply
		if err := json.Unmarshal(encode(t, kvstate.EventsReply{Events: first.Events}), &third); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fullEvents(first.Events), fullEvents(third.Events)); diff != "" {
			t.Fatalf("by way of JSON:\n%s", diff)
		}
	})
}

// fullEvents makes no list and an empty list the same.
func fullEvents(events []kvstate.RouterEvent) string {
	b, err := json.Marshal(kvstate.EventsReply{Events: events})
	if err != nil {
		return err.Error()
	}
	return string(b)
}
