package reconcile

import (
	"strings"
	"testing"

	"mooring/kvstate"
)

func TestTailGivesEventsInOrderAndOnce(t *testing.T) {
	ids := func(events []kvstate.RouterEvent) (ids []uint64) {
		for _, e := range events {
			ids = append(ids, e.EventID)
		}
		return ids
	}
	tests := []struct {
		name        string
		has         []uint64
		cursor      uint64
		want        []uint64
		first, left uint64
	}{
		{"nothing", nil, 5, nil, 0, 0},
		{"the next ones", []uint64{6, 7}, 5, []uint64{6, 7}, 0, 0},
		{"what is known already", []uint64{4, 5}, 5, nil, 0, 0},
		{"a gap at once", []uint64{7, 8}, 5, nil, 7, 2},
		{"a gap in between", []uint64{6, 8}, 5, []uint64{6}, 8, 1},
		{"twice and in disorder", []uint64{7, 6, 6, 7, 3, 9}, 5, []uint64{6, 7}, 9, 1},
		{"the end of numbers", []uint64{1<<64 - 1}, 1<<64 - 2, []uint64{1<<64 - 1}, 0, 0},
	}
	for _, tt := range tests {
		var tail tail
		for _, id := range tt.has {
			if !tail.add(kvstate.RouterEvent{EventID: id, Removed: []uint64{1}}) {
				t.Fatal("no room")
			}
		}
		got := ids(tail.take(tt.cursor))
		first, _ := tail.first()
		if len(got) != len(tt.want) || first != tt.first || uint64(len(tail.events)) != tt.left || tail.bytes != int(tt.left)*bytesOf(&kvstate.RouterEvent{Removed: []uint64{1}}) {
			t.Errorf("%s: got %v, first %d, %d left with %d bytes", tt.name, got, first, len(tail.events), tail.bytes)
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
			}
		}
	}
}

func TestTailIsBounded(t *testing.T) {
	var events tail
	for i := range uint64(maxTailEvents) {
		if !events.add(kvstate.RouterEvent{EventID: i}) {
			t.Fatalf("full at %d", i)
		}
	}
	if events.add(kvstate.RouterEvent{}) {
		t.Error("more events than the bound")
	}
	for name, big := range map[string]kvstate.RouterEvent{
		"hashes":  {Removed: make([]uint64, 1<<20)},
		"blocks":  {Store: kvstate.StoreData{Blocks: make([]kvstate.Block, 1<<19)}},
		"domains": {Domain: kvstate.WireDomain{Present: true, Name: strings.Repeat("d", 8<<20)}},
	} {
		var bytes tail
		n := 0
		for n < 100 && bytes.add(big) {
			n++
		}
		if n != 3 { // of 8 MiB each, and a little
			t.Errorf("%s: %d events of 8 MiB", name, n)
		}
	}
}

func TestTailKeepsNoSessions(t *testing.T) {
	session := strings.Repeat("s", 1<<20)
	var tail tail
	if !tail.add(kvstate.RouterEvent{EventID: 1, SessionID: &session, Store: kvstate.StoreData{MM: make([][]kvstate.MMObject, 9)}}) {
		t.Fatal("no room")
	}
	if e := tail.take(0)[0]; e.SessionID != nil || e.Store.MM != nil {
		t.Errorf("kept %+v", e)
	}
	if tail.bytes != 0 {
		t.Errorf("%d bytes are left of nothing", tail.bytes)
	}
}
