package feed

import (
	"testing"
	"time"
)

func FuzzReadReply(f *testing.F) {
	f.Add([]byte{}, []byte{0, 0, 0, 0, 0, 0, 0, 1}, []byte("payload"), []byte{}, uint8(3))
	f.Add([]byte{}, []byte("topic"), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte{}, uint8(4))
	f.Add([]byte("x"), []byte{1}, []byte{}, []byte{}, uint8(1))
	f.Fuzz(func(t *testing.T, a, b, c, d []byte, n uint8) {
		frames := append([][]byte{a, b, c, d}, a)[:n%6]
		seq, payload, ok := readReply(frames)
		if !ok {
			return
		}
		if len(frames) < 3 || len(frames[0]) != 0 || len(payload) != len(frames[len(frames)-1]) {
			t.Errorf("%q read as %d %q", frames, seq, payload)
		}
	})
}

func TestReadReply(t *testing.T) {
	one, end := []byte{0, 0, 0, 0, 0, 0, 0, 1}, []byte{255, 255, 255, 255, 255, 255, 255, 255}
	for _, c := range []struct {
		frames  [][]byte
		seq     uint64
		payload string
		ok      bool
	}{
		{[][]byte{nil, one, []byte("p")}, 1, "p", true},
		{[][]byte{nil, []byte("topic"), one, []byte("p")}, 1, "p", true},
		{[][]byte{nil, nil, one, []byte("p")}, 1, "p", true},
		{[][]byte{nil, end, nil}, endOfReplay, "", true},
		{[][]byte{nil, []byte("topic"), end, nil}, endOfReplay, "", true},
		{[][]byte{nil, one}, 0, "", false},
		{[][]byte{one, one, []byte("p")}, 0, "", false},
		{[][]byte{nil, []byte("topic"), []byte("p"), one}, 0, "", false},
		{[][]byte{nil, one[:7], []byte("p")}, 0, "", false},
		{[][]byte{nil, nil, nil, one, nil}, 0, "", false},
		{nil, 0, "", false},
	} {
		seq, payload, ok := readReply(c.frames)
		if seq != c.seq || string(payload) != c.payload || ok != c.ok {
			t.Errorf("%q: %d %q %t", c.frames, seq, payload, ok)
		}
	}
}

func TestPauses(t *testing.T) {
	last := time.Duration(0)
	for n := 1; n < 100; n++ {
		p := pauseBefore(n)
		if p < last || p > longestPause {
			t.Errorf("pause %d: %s after %s", n, p, last)
		}
		last = p
	}
	if last != longestPause {
		t.Errorf("last pause %s", last)
	}
}
