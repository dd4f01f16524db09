package replication

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrForged: a message without a valid signature, or one that came before.
var ErrForged = errors.New("no valid signature")

// errReplayed is an ErrForged of a message that was signed with our key.
var errReplayed = fmt.Errorf("%w: it came before, or is of an earlier epoch", ErrForged)

// MinKey is the length of the shortest key, in bytes.
const MinKey = 16

// authBytes is the length of the third frame: sender, epoch, counter, MAC.
const authBytes = 8 + 8 + 8 + sha256.Size

// Signer signs this process's messages and checks those of others. It belongs to
// one goroutine.
//
// Each process signs under its sender id and an epoch, the time of its start.
// Within an epoch each message is taken once; of one sender id, no epoch older
// than the newest. A receiver that starts afresh knows no epochs: messages that
// were recorded before it started can be played to it. They give a binding no
// version that it did not have, so they cost an expired session's life at most.
// The same holds for a sender that is forgotten: of more than maxSigners, who was
// heard least recently.
type Signer struct {
	key     []byte
	sender  uint64
	epoch   uint64
	counter uint64
	checked uint64 // messages with our key, so far
	heard   map[uint64]*epochOf
}

// maxSigners bounds the senders that are remembered. Each start of a replica is a
// new one, and only holders of the key get that far.
const maxSigners = 4 * maxPeers

// epochOf is what was heard of one sender.
type epochOf struct {
	epoch uint64
	came  window // by counter
	last  uint64 // the Signer's checked at its latest message
}

// NewSigner returns a Signer for the process that started at the given time.
func NewSigner(key []byte, sender uint64, started time.Time) (*Signer, error) {
	if len(key) < MinKey {
		return nil, errors.New("the mesh key is too short: at least 16 bytes")
	}
	return &Signer{key: key, sender: sender, epoch: uint64(started.UnixNano()), heard: make(map[uint64]*epochOf)}, nil
}

// Sign sets m.Auth.
func (s *Signer) Sign(m *Message) {
	s.counter++
	m.Auth = make([]byte, 0, authBytes)
	m.Auth = binary.BigEndian.AppendUint64(m.Auth, s.sender)
	m.Auth = binary.BigEndian.AppendUint64(m.Auth, s.epoch)
	m.Auth = binary.BigEndian.AppendUint64(m.Auth, s.counter)
	m.Auth = append(m.Auth, s.mac(m, m.Auth)...)
}

func (s *Signer) mac(m *Message, head []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(m.Topic))))
	h.Write([]byte(m.Topic))
	h.Write(head)
	h.Write(m.Payload)
	return h.Sum(nil)
}

// Check returns ErrForged unless m was signed with the key and is new.
func (s *Signer) Check(m *Message) error {
	if len(m.Auth) != authBytes {
		return ErrForged
	}
	head := m.Auth[:authBytes-sha256.Size]
	if !hmac.Equal(m.Auth[len(head):], s.mac(m, head)) {
		return ErrForged
	}
	sender, epoch, n := binary.BigEndian.Uint64(head), binary.BigEndian.Uint64(head[8:]), binary.BigEndian.Uint64(head[16:])
	e := s.heard[sender]
	switch {
	case e != nil && epoch < e.epoch:
		return errReplayed
	case e == nil || epoch > e.epoch:
		if e == nil && len(s.heard) >= maxSigners {
			s.forgetOne()
		}
		e = &epochOf{epoch: epoch}
		s.heard[sender] = e
	}
	s.checked++
	e.last = s.checked
	if fresh, _ := e.came.take(n); !fresh {
		return errReplayed
	}
	return nil
}

// forgetOne forgets the sender that was heard least recently.
func (s *Signer) forgetOne() {
	var oldest uint64
	last := uint64(math.MaxUint64)
	for sender, e := range s.heard {
		if e.last < last {
			oldest, last = sender, e.last
		}
	}
	delete(s.heard, oldest)
}
