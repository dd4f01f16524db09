package replication

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

func newTestSigner(t *testing.T, key string, sender uint64, started int64) *Signer {
	t.Helper()
	s, err := NewSigner([]byte(key), sender, time.Unix(started, 0))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const testKey = "0123456789abcdef"

func TestSignedMessageIsTakenOnce(t *testing.T) {
	from, to := newTestSigner(t, testKey, 1, 1), newTestSigner(t, testKey, 2, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	var msgs []Message
	for range 3000 {
		m := Message{Topic: TopicV2, Payload: []byte("p")}
		from.Sign(&m)
		msgs = append(msgs, m)
	}
	rng.Shuffle(len(msgs), func(i, j int) { msgs[i], msgs[j] = msgs[j], msgs[i] })
	for i := range msgs {
		if err := to.Check(&msgs[i]); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	for i := range msgs {
		if err := to.Check(&msgs[i]); !errors.Is(err, ErrForged) {
			t.Fatalf("message %d was taken again", i)
		}
	}
}

func TestForgedMessagesAreRefused(t *testing.T) {
	from, to := newTestSigner(t, testKey, 1, 1), newTestSigner(t, testKey, 2, 1)
	for name, spoil := range map[string]func(*Message){
		"topic":    func(m *Message) { m.Topic = TopicV1 },
		"payload":  func(m *Message) { m.Payload = []byte("q") },
		"sender":   func(m *Message) { m.Auth[7]++ },
		"epoch":    func(m *Message) { m.Auth[15]++ },
		"counter":  func(m *Message) { m.Auth[23]++ },
		"mac":      func(m *Message) { m.Auth[len(m.Auth)-1]++ },
		"no frame": func(m *Message) { m.Auth = nil },
		"key":      func(m *Message) { newTestSigner(t, testKey+"x", 1, 1).Sign(m) },
	} {
		m := Message{Topic: TopicV2, Payload: []byte("p")}
		from.Sign(&m)
		m.Auth = bytes.Clone(m.Auth)
		spoil(&m)
		if err := to.Check(&m); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRestartedSenderIsNotMuted(t *testing.T) {
	old, fresh, to := newTestSigner(t, testKey, 1, 1), newTestSigner(t, testKey, 1, 2), newTestSigner(t, testKey, 2, 1)
	var before, after Message
	for range 10 {
		old.Sign(&before)
	}
	fresh.Sign(&after)
	if err := errors.Join(to.Check(&before), to.Check(&after)); err != nil {
		t.Fatal(err)
	}
	old.Sign(&before)
	if err := to.Check(&before); !errors.Is(err, ErrForged) {
		t.Errorf("an older epoch was taken: %v", err)
	}
}

// TestManyRestartsMuteNobody hears of more starts of replicas than are
// remembered, and all the time of one that stays.
func TestManyRestartsMuteNobody(t *testing.T) {
	to, stays := newTestSigner(t, testKey, 1, 1), newTestSigner(t, testKey, 2, 1)
	take := func(from *Signer) Message {
		t.Helper()
		m := Message{Topic: TopicV2, Payload: []byte("p")}
		from.Sign(&m)
		if err := to.Check(&m); err != nil {
			t.Fatalf("sender %d: %v", from.sender, err)
		}
		return m
	}
	for i := range uint64(2 * maxSigners) {
		take(newTestSigner(t, testKey, 100+i, 1))
		m := take(stays)
		if err := to.Check(&m); !errors.Is(err, ErrForged) {
			t.Fatal("who is heard all the time was forgotten")
		}
	}
	if len(to.heard) != maxSigners {
		t.Errorf("%d senders are remembered, want %d", len(to.heard), maxSigners)
	}
}
