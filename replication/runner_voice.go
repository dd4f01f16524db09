package replication

import (
	"errors"
	"log/slog"
	"time"
)

// Distrust says why messages from an endpoint are refused, whoever sent them.
type Distrust uint8

// Why messages are refused.
const (
	Trusted     Distrust = iota // they are not
	NotSigned                   // and we have a key
	NotOurKey                   // signed with another key than ours
	SignedAtAll                 // and we have no key
)

// String says it of "its messages".
func (d Distrust) String() string {
	return [...]string{
		"are taken", "are not signed, and this replica has a key", "are not signed with this replica's key",
		"are signed, and this replica has no key",
	}[d]
}

// Voice is what came from one endpoint, taken or refused.
type Voice struct {
	Endpoint string
	Last     time.Time // when something came
	Distrust Distrust  // of what came then
}

// distrustAgain is how often the log may tell of one endpoint that trust came or
// went: who is in between may mix messages of both kinds.
const distrustAgain = time.Minute

// voices are the endpoints from which something came, and what the log says of
// them. They belong to Run's goroutine.
type voices struct {
	logger *slog.Logger
	by     map[string]*voice
}

type voice struct {
	Voice
	logged   Distrust
	loggedAt time.Time
}

// hear notes a message. Endpoints are those of the configuration; at most
// maxPeers are remembered.
func (vs *voices) hear(now time.Time, endpoint string, why Distrust) {
	v := vs.by[endpoint]
	if v == nil {
		vs.makeRoom()
		v = &voice{Voice: Voice{Endpoint: endpoint}}
		vs.by[endpoint] = v
	}
	v.Last, v.Distrust = now, why
	if why == v.logged || now.Sub(v.loggedAt) < distrustAgain {
		return
	}
	v.logged, v.loggedAt = why, now
	if why == Trusted {
		vs.logger.Info("a peer's messages are taken now", "endpoint", endpoint)
	} else {
		vs.logger.Warn("a peer's messages are refused: they "+why.String(), "endpoint", endpoint)
	}
}

// makeRoom forgets who was heard least recently, if there are too many.
func (vs *voices) makeRoom() {
	if len(vs.by) < maxPeers {
		return
	}
	var oldest *voice
	for _, v := range vs.by {
		if oldest == nil || v.Last.Before(oldest.Last) {
			oldest = v
		}
	}
	delete(vs.by, oldest.Endpoint)
}

// list returns what is known of all, in no order.
func (vs *voices) list() []Voice {
	list := make([]Voice, 0, len(vs.by))
	for _, v := range vs.by {
		list = append(list, v.Voice)
	}
	return list
}

// check returns an error if the message is refused. Its sender may have our key all
// the same: what came before comes again if a peer has two names.
func (r *Runner) check(m *Message) (Distrust, error) {
	switch {
	case r.signer != nil:
	case m.Auth != nil:
		return SignedAtAll, ErrForged
	default:
		return Trusted, nil
	}
	err := r.signer.Check(m)
	switch {
	case err == nil || errors.Is(err, errReplayed):
		return Trusted, err
	case m.Auth == nil:
		return NotSigned, err
	}
	return NotOurKey, err
}
