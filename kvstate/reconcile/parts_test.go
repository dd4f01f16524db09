package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
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
		if len(got) != len(tt.want) || first != tt.first || uint64(len(tail.events)) != tt.left || tail.blocks != int(tt.left) {
			t.Errorf("%s: got %v, first %d, %d left with %d blocks", tt.name, got, first, len(tail.events), tail.blocks)
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
	var blocks tail
	big := kvstate.RouterEvent{Removed: make([]uint64, maxTailBlocks)}
	if !blocks.add(big) || blocks.add(kvstate.RouterEvent{Removed: make([]uint64, 1)}) {
		t.Error("more blocks than the bound, or fewer")
	}
}

func TestPausesDoubleAndBeginAnew(t *testing.T) {
	var p pause
	now := time.Unix(0, 0)
	for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		p.begin(now)
		if got := p.until.Sub(now); got != want*time.Millisecond {
			t.Errorf("paused %s, want %s", got, want*time.Millisecond)
		}
		now = p.until
	}
	now = now.Add(2*longestPause + 1)
	if p.begin(now); p.until.Sub(now) != shortestPause {
		t.Errorf("after a long quiet time paused %s", p.until.Sub(now))
	}
}

func TestRankEndpoints(t *testing.T) {
	tests := []struct {
		endpoint string
		rank     uint32
		want     string
		wrong    bool
	}{
		{"tcp://10.0.0.7:5557", 0, "tcp://10.0.0.7:5557", false},
		{"tcp://10.0.0.7:5557", 3, "tcp://10.0.0.7:5560", false},
		{"tcp://[fd00::1]:5557", 1, "tcp://[fd00::1]:5558", false},
		{"", 3, "", false},
		{"tcp://h:65535", 1, "", true},
		{"tcp://h", 1, "", true},
		{"tcp://h:x", 1, "", true},
	}
	for _, tt := range tests {
		got, err := rankEndpoint(tt.endpoint, tt.rank)
		if got != tt.want || err != nil != tt.wrong {
			t.Errorf("%s rank %d: %q, %v", tt.endpoint, tt.rank, got, err)
		}
	}
}

func TestConfiguredOwnersAreStable(t *testing.T) {
	w := testWorker(7)
	// Replicas of different builds must agree, and operators look keys up.
	if got, want := configuredOwner(&w, 3, 16).Key().String(), "60161c4ae04ac8b820ac7d400c3f5e63"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	other := testWorker(8)
	seen := map[kvstate.CacheOwnerID]string{}
	for name, id := range map[string]kvstate.CacheOwnerID{
		"rank 0": configuredOwner(&w, 0, 16), "rank 1": configuredOwner(&w, 1, 16), "another size": configuredOwner(&w, 0, 32),
		"another worker": configuredOwner(&other, 0, 16),
	} {
		if before, taken := seen[id]; taken {
			t.Errorf("%s and %s are one owner", name, before)
		}
		seen[id] = name
	}
}

// answering makes a server and asks it once.
func answering(t *testing.T, timeout time.Duration, q question, handler http.HandlerFunc) (kvstate.QueryResponse, error) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	c := newControl()
	defer c.close()
	return c.ask(t.Context(), &call{question: q, target: testTarget(server.URL), timeout: timeout,
		request: kvstate.QueryRequest{Kind: kvstate.QueryKind{Op: kvstate.QueryStatus, Expected: kvstate.AgentIdentity{ProtocolVersion: kvstate.V2}}}})
}

func TestControlTrustsNoAnswer(t *testing.T) {
	stop := make(chan struct{})
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    string // in the error
	}{
		{"another status", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy\x00", http.StatusServiceUnavailable) }, `503 Service Unavailable: "busy\x00`},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "302 Found"},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") }, "decode the answer"},
		{"two answers in one", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"Error":"a","TooNew":{"newest_available":1}}`)
		}, "decode the answer"},
		{"no end", func(w http.ResponseWriter, _ *http.Request) {
			for range maxStatusBytes/10 + 1 {
				_, _ = io.WriteString(w, "          ")
			}
		}, "larger than 65536 bytes"},
		{"nothing", func(http.ResponseWriter, *http.Request) { <-stop }, "deadline exceeded"},
	}
	for _, tt := range tests {
		timeout := 10 * time.Second
		if tt.name == "nothing" {
			timeout = time.Millisecond
			time.AfterFunc(50*time.Millisecond, func() { close(stop) }) // the server waits for its handler
		}
		if _, err := answering(t, timeout, askStatus, tt.handler); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestControlAsksAsTheContractSays(t *testing.T) {
	var got string
	answer, err := answering(t, 10*time.Second, askStatus, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.Header.Get("Content-Type") + " " + string(body)
		_, _ = io.WriteString(w, `{"Error":"not now"}`)
	})
	if err != nil || answer.Error == nil || *answer.Error != "not now" {
		t.Errorf("answer %+v, %v", answer, err)
	}
	want := `POST application/json {"worker_id":0,"dp_rank":0,"supports_tree_dump_failed":false,"kind":{"status":{"expected":`
	if !strings.HasPrefix(got, want) {
		t.Errorf("asked %s", got)
	}
}

func TestCallsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControl()
		for range maxRecoveries {
			c.heavy <- struct{}{}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.ask(ctx, &call{question: askFull, timeout: time.Second}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

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

func FuzzRecord(f *testing.F) {
	source, _ := json.Marshal(sourceRecord(7))
	attachment, _ := json.Marshal(attachmentRecord(7, 1))
	f.Add(uint64(7), source)
	f.Add(kvstate.AttachmentRecordID(7, 1), attachment)
	f.Add(uint64(0), []byte("{"))
	f.Fuzz(func(t *testing.T, id uint64, data []byte) {
		if !whole(data) && json.Valid(data) {
			t.Error("valid JSON is taken for half a file")
		}
		if v, err := decodeSource(id, data); err == nil {
			if s := v.(kvstate.SourceAdvertisement); s.PublisherID != id || s.IndexerDomainID != s.CacheOwnerID.Pool.IndexerDomain {
				t.Errorf("taken: %+v", s)
			}
		}
		if v, err := decodeAttachment(id, data); err == nil {
			if a := v.(kvstate.AttachmentAdvertisement); kvstate.AttachmentRecordID(a.PublisherID, a.AttachmentGeneration) != id {
				t.Errorf("taken: %+v", a)
			}
		}
	})
}

func TestFeedsFollowTheConfiguration(t *testing.T) {
	w := testWorker(7)
	w.KVEvents, w.KVReplay, w.Ranks = "tcp://10.0.0.7:5557", "tcp://10.0.0.7:6557", 2
	silent := testWorker(8)
	want := wantedFeeds(fleet.NewView([]fleet.Worker{w, silent}), 16)
	if len(want) != 2 || want[kvstate.Worker{WorkerID: 7, DPRank: 1}].blockSize != 16 {
		t.Fatalf("%+v", want)
	}
	c := newCore(fleet.NewView(nil), time.Second, time.Minute)
	f := feeds{want: want, running: make(map[kvstate.Worker]*runningFeed)}
	if start, stop := f.arrange(c); len(start) != 2 || len(stop) != 0 {
		t.Errorf("%d start, %d stop", len(start), len(stop))
	}
	if start, stop := f.arrange(c); len(start)+len(stop) != 0 {
		t.Errorf("unchanged: %d start, %d stop", len(start), len(stop))
	}
	w.Ranks, w.KVEvents = 1, "tcp://10.0.0.7:7777"
	f.want = wantedFeeds(fleet.NewView([]fleet.Worker{w}), 16)
	start, stop := f.arrange(c)
	if len(start) != 0 || len(stop) != 2 {
		t.Errorf("changed: %d start, %d stop: a feed starts when the old one has ended", len(start), len(stop))
	}
	for _, r := range stop {
		f.ended(c, r.spec)
	}
	if start, stop := f.arrange(c); len(start) != 1 || len(stop) != 0 {
		t.Errorf("then: %d start, %d stop", len(start), len(stop))
	}
}
