package kvstate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// TestAnswersAreBounded: an answer may hold so many events and hashes and not one
// more, however they are spread.
func TestAnswersAreBounded(t *testing.T) {
	many := func(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	events := func(n int, data string) string {
		return many(`{"worker_id":1,"event":{"event_id":1,"data":`+data+`}}`, n)
	}
	removed := func(n int) string { return `{"removed":{"block_hashes":[` + many("1", n) + `]}}` }
	block := func(mm string) string { return `{"block_hash":1,"tokens_hash":1` + mm + `}` }
	stored := func(blocks string) string { return `{"stored":{"blocks":[` + blocks + `]}}` }
	objects := func(n, offsets int) string {
		return stored(block(`,"mm_extra_info":{"mm_objects":[` + many(`{"mm_hash":1,"offsets":[`+many("[1,2]", offsets)+`]}`, n) + `]}`))
	}
	const none = ""
	for _, row := range []struct {
		name, events, want string
	}{
		{"5 events", events(5, `"cleared"`), none},
		{"6 events", events(6, `"cleared"`), "more than 5 events"},
		{"20 hashes", events(5, removed(4)), none},
		{"21 hashes", events(3, removed(7)), "more than 20 hashes"},
		{"20 blocks", events(1, stored(many(block(""), 20))), none},
		{"21 blocks", events(3, stored(many(block(""), 7))), "more than 20 hashes"},
		{"a block and 19 objects", events(1, objects(19, 0)), none},
		{"a block and 20 objects", events(1, objects(20, 0)), "more than 20 hashes"},
		{"a block, an object and 18 offsets", events(1, objects(1, 18)), none},
		{"a block, an object and 19 offsets", events(1, objects(1, 19)), "more than 20 hashes"},
	} {
		for _, form := range []string{`{"Events":%s}`, `{"TreeDump":%s}`} {
			r := newEventReader(strings.NewReader(fmt.Sprintf(form, `{"last_event_id":1,"events":[`+row.events+`]}`)))
			r.events.most, r.hashes.most = 5, 20
			_, err := r.whole()
			if (err == nil) != (row.want == none) || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s in %s: %v, want %q", row.name, form, err, row.want)
			}
		}
	}
}

// TestRoomForAFullState: an index has 4 Mi blocks by default. An agent with a
// quarter of them tells of each alone, and of some again in another tier.
func TestRoomForAFullState(t *testing.T) {
	const agent, index = 1 << 20, 4 << 20
	if r := newEventReader(strings.NewReader("")); r.events.most < 2*agent || r.hashes.most < index {
		t.Errorf("room for %d events and %d hashes", r.events.most, r.hashes.most)
	}
}

// TestUnknownNamesTakeNoMemory: a peer can put any number of names into an object.
func TestUnknownNamesTakeNoMemory(t *testing.T) {
	const n = 100_000
	var names strings.Builder
	for i := range n {
		fmt.Fprintf(&names, `"unknown %d":1,`, i)
	}
	for _, form := range []string{
		`{"Events":{%s"events":[],"last_event_id":1}}`,
		`{"Events":{"unknown":{%s"last":1},"events":[],"last_event_id":1}}`,
		`{"Events":{"events":[{"worker_id":1,"event":{%s"event_id":1,"data":"cleared"}}],"last_event_id":1}}`,
	} {
		text := []byte(fmt.Sprintf(form, names.String()))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeAnswer(bytes.NewBuffer(text))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > 64<<10 {
			t.Errorf("%.40s: %v, %d bytes were allocated for %d of text", form, err, took, len(text))
		}
	}
}

// TestPartsOfAnswersAreSmall: what is read as a whole has a size.
func TestPartsOfAnswersAreSmall(t *testing.T) {
	long := `"` + strings.Repeat("x", maxPartBytes) + `"`
	for _, text := range []string{
		`{"Error":` + long + `}`,
		`{"StateAgentRecovery":{"receipt":` + long + `}}`,
		`{"Events":{"events":[{"worker_id":1,"state_source":` + long + `}]}}`,
	} {
		if _, err := DecodeAnswer(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "65538 bytes, 65536 are allowed") {
			t.Errorf("%.60s: %.200v", text, err)
		}
	}
}

// TestAnswersEndWithTheirReader: what the reader says ends the answer, and nothing
// may follow it.
func TestAnswersEndWithTheirReader(t *testing.T) {
	out := errors.New("out of time")
	begun := io.MultiReader(strings.NewReader(`{"Events":{"last_event_id":1,"events":[`+strings.Repeat(`{"worker_id":1,"event":{"event_id":1,"data":"cleared"}},`, 1000)), failing{out})
	if _, err := DecodeAnswer(begun); !errors.Is(err, out) {
		t.Errorf("%v, want what the reader said", err)
	}
	whole := `{"Error":"no"}`
	if _, err := DecodeAnswer(io.MultiReader(strings.NewReader(whole), failing{out})); !errors.Is(err, out) {
		t.Errorf("after the answer: %v, want what the reader said", err)
	}
	if _, err := DecodeAnswer(strings.NewReader(whole + "{}")); err == nil {
		t.Error("another value after the answer was accepted")
	}
	if got, err := DecodeAnswer(strings.NewReader(whole + " \n")); err != nil || got.Error == nil || *got.Error != "no" {
		t.Errorf("%+v, %v", got, err)
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }
