package replication

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

const (
	rankedHex     = "87aa6d6f64656c5f6e616d65a96c6c616d612d373062ad726f7574696e675f67726f7570a764656661756c74aa73657373696f6e5f6964a7636f6e762d3432a9776f726b65725f696407a764705f72616e6b01a873657175656e6365cf18d75b8423f3007ba97772697465725f69642a"
	workerOnlyHex = "87aa6d6f64656c5f6e616d65a96c6c616d612d373062ad726f7574696e675f67726f7570a764656661756c74aa73657373696f6e5f6964a7636f6e762d3432a9776f726b65725f696407a764705f72616e6bc0a873657175656e6365cf18d75b8423f3007ba97772697465725f6964cfa000000000000000"
	rankedJSON    = `{"model_name":"llama-70b","routing_group":"default","session_id":"conv-42","worker_id":7,"dp_rank":1,"sequence":1790000000000000123,"writer_id":42}`
)

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestEventsMatchTheVectors(t *testing.T) {
	rank := uint32(1)
	ranked := BindingEvent{ModelName: "llama-70b", RoutingGroup: "default", SessionID: "conv-42", WorkerID: 7, DPRank: &rank, Sequence: 1790000000000000123, WriterID: 42}
	plain := ranked
	plain.DPRank, plain.WriterID = nil, 11529215046068469760
	for _, c := range []struct {
		hex   string
		event BindingEvent
	}{{rankedHex, ranked}, {workerOnlyHex, plain}} {
		want := unhex(t, c.hex)
		if got := AppendEvent(nil, &c.event); !bytes.Equal(got, want) {
			t.Errorf("encoded %x\nwant    %x", got, want)
		}
		got, err := DecodeEvent(want)
		if err != nil || !reflect.DeepEqual(got, c.event) {
			t.Errorf("decoded %+v, %v; want %+v", got, err, c.event)
		}
	}
	if got, err := json.Marshal(ranked); err != nil || string(got) != rankedJSON {
		t.Errorf("JSON = %s, %v", got, err)
	}
	var back BindingEvent
	if err := json.Unmarshal([]byte(rankedJSON), &back); err != nil || !reflect.DeepEqual(back, ranked) {
		t.Errorf("from JSON: %+v, %v", back, err)
	}
}

func TestOwnKeysAndForeignKeysPass(t *testing.T) {
	life := uint64(1500)
	e := BindingEvent{ModelName: "m", RoutingGroup: "g", SessionID: strings.Repeat("é", 128), WorkerID: 1<<64 - 1, Sequence: 1<<64 - 1, WriterID: 1 << 63, SenderID: 9, SenderSeq: 10, TTLMillis: &life}
	b := AppendEvent(nil, &e)
	b[0]++ // one more pair: a nested value that nobody knows
	b = append(appendString(b, "future"), 0x92, 0x81, 0x01, 0xc0, 0xcb, 1, 2, 3, 4, 5, 6, 7, 8)
	if got, err := DecodeEvent(b); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("decoded %+v, %v; want %+v", got, err, e)
	}
}

func TestHostilePayloadsAreRefused(t *testing.T) {
	good := unhex(t, rankedHex)
	twice := append([]byte{0x88}, good[1:]...)
	twice = append(appendString(twice, "writer_id"), 0x01)
	missing := append([]byte{0x86}, good[1:len(good)-11]...)
	for name, c := range map[string]struct {
		payload []byte
		want    error
	}{
		"empty":                 {nil, ErrMalformed},
		"array of 2^32":         {unhex(t, "ddffffffff"), ErrMalformed},
		"map of 2^32":           {unhex(t, "dfffffffff"), ErrMalformed},
		"bin of 2^32":           {unhex(t, "c6ffffffff"), ErrMalformed},
		"lone extension":        {[]byte{0xd4}, ErrMalformed},
		"nested arrays":         {append([]byte{0x81, 0xa1, 'x'}, bytes.Repeat([]byte{0x91}, 100_000)...), ErrMalformed},
		"key claims 2^32":       {unhex(t, "81dbffffffff"), ErrMalformed},
		"unknown list of 2^32":  {unhex(t, "81a178ddffffffff"), ErrMalformed},
		"doubled key":           {twice, ErrMalformed},
		"missing writer":        {missing, ErrMissingKey},
		"bytes after":           {append(bytes.Clone(good), 0), ErrMalformed},
		"larger than the limit": {make([]byte, MaxPayload+1), ErrMalformed},
		"an empty map":          {[]byte{0x80}, ErrMissingKey},
	} {
		if _, err := DecodeEvent(c.payload); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if _, err := DecodeSync(c.payload); err == nil {
			t.Errorf("%s: taken as a sync message", name)
		}
	}
	for n := range good {
		if _, err := DecodeEvent(good[:n]); err == nil {
			t.Errorf("the first %d bytes alone were accepted", n)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(unhex(f, rankedHex))
	f.Add(unhex(f, workerOnlyHex))
	f.Add(unhex(f, "ddffffffff"))
	f.Add(AppendSync(nil, &SyncMessage{Type: Want, SenderID: 1, SenderSeq: 2, To: 3, Buckets: []byte{1}, Have: make([]byte, 8)}))
	f.Add(AppendSync(nil, &SyncMessage{Type: Hello, SenderID: 1, SenderSeq: 2, To: 3, Buckets: []byte{1, 2}}))
	f.Add(AppendSync(nil, &SyncMessage{Type: DigestOf, SenderID: 1, SenderSeq: 2, To: 3, Buckets: []byte{1}, Sums: make([]byte, digestBytes)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := DecodeEvent(b); err == nil {
			if e.SenderID == 0 {
				e.SenderSeq = 0
			}
			if again, err := DecodeEvent(AppendEvent(nil, &e)); err != nil || !reflect.DeepEqual(again, e) {
				t.Fatalf("%+v became %+v, %v", e, again, err)
			}
		}
		if m, err := DecodeSync(b); err == nil {
			if again, err := DecodeSync(AppendSync(nil, &m)); err != nil || again.Type != m.Type || again.SenderID != m.SenderID {
				t.Fatalf("%+v became %+v, %v", m, again, err)
			}
		}
		_ = senderOf(b)
	})
}
