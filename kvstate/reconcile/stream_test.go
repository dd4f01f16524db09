package reconcile

import (
	"testing"

	"mooring/kvstate"
)

func TestBadBatchesAreRefused(t *testing.T) {
	event := kvstate.RouterEvent{EventID: 1, Kind: kvstate.Cleared, Domain: kvstate.InDomain(kvstate.WorkerDomain)}
	good, err := kvstate.AppendEvents(nil, []kvstate.RouterEvent{event})
	if err != nil {
		t.Fatal(err)
	}
	topic, number := []byte(kvstate.EventTopic), make([]byte, 8)
	tests := []struct {
		name           string
		frames         [][]byte
		events, refuse int
	}{
		{"a batch", [][]byte{topic, number, good}, 1, 0},
		{"two frames", [][]byte{topic, good}, 0, 1},
		{"four frames", [][]byte{topic, number, good, good}, 0, 1},
		{"a longer topic", [][]byte{[]byte(kvstate.EventTopic + "-x"), number, good}, 0, 1},
		{"a short number", [][]byte{topic, number[:7], good}, 0, 1},
		{"half a batch", [][]byte{topic, number, good[:len(good)/2]}, 0, 1},
		{"no batch", [][]byte{topic, number, {0xc0}}, 0, 1},
		{"an empty payload", [][]byte{topic, number, nil}, 0, 1},
		{"an empty batch", [][]byte{topic, number, {0x90}}, 0, 0},
		{"one event that is none", [][]byte{topic, number, {0x91, 0x01}}, 0, 1},
	}
	for _, tt := range tests {
		events, refused := 0, 0
		l := &listener{events: func(e []kvstate.RouterEvent) { events += len(e) }, refused: func(error) { refused++ }}
		l.read(tt.frames)
		if events != tt.events || refused != tt.refuse {
			t.Errorf("%s: %d events, %d refused", tt.name, events, refused)
		}
	}
}

func FuzzLiveBatch(f *testing.F) {
	f.Add([]byte{0x90})
	f.Add([]byte{0x91, 0x81, 0xa5, 'e', 'v', 'e', 'n', 't', 0x80})
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, _, now := readyOwners(t, 1)
		s, _ := manyth(1)
		l := &listener{
			events:  func(e []kvstate.RouterEvent) { c.heard(now, s.CacheOwnerID, 0, e) },
			refused: func(error) {},
		}
		l.read([][]byte{[]byte(kvstate.EventTopic), make([]byte, 8), payload})
		fx, _ := c.settle(now)
		for _, e := range fx.edits {
			for i := range e.events {
				if _, err := e.events[i].Scope(); err != nil {
					t.Errorf("an event of no domain got through: %v", err)
				}
			}
		}
	})
}
