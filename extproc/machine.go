package extproc

import (
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"mooring/routing"
)

// next is what a machine wants done after its answers were sent.
type next uint8

const (
	// nextReceive: hand over the next message.
	nextReceive next = iota
	// nextExamine: read the headers, then call examined or refuse.
	nextExamine
	// nextPick: decide, then call decided or refuse. body has what was collected.
	nextPick
	// nextEnd: the stream is over, with status OK.
	nextEnd
	// nextFail: the stream is over, with a status that is not OK.
	nextFail
)

// step is what a machine does about one event.
type step struct {
	send    []*extprocv3.ProcessingResponse // in this order, before anything else
	next    next
	refusal *routing.Error // set if send ends the request with an immediate response
	fault   string         // what is wrong with the stream
	setup   bool           // the fault is in the filter's configuration
}

// phase is how far the request has come.
type phase uint8

const (
	phaseStart      phase = iota // nothing received
	phaseExamining               // headers received, not judged
	phaseCollecting              // the body is needed and not complete
	phasePicking                 // all that the decision needs is there
	phasePassing                 // the pick is answered
	phaseOver                    // refused or failed; everything is ignored
)

// String returns a lower-case word.
func (p phase) String() string {
	return [...]string{"start", "examining", "collecting", "picking", "passing", "over"}[p]
}

// bodyUse says what a decision does with the request's body.
type bodyUse uint8

const (
	bodyUnused bodyUse = iota
	bodyWanted         // it makes a better decision; one that cannot be had is done without
	bodyNeeded         // there is no decision without it
)

// limits is what a machine is told about bodies.
type limits struct {
	body     int64   // longest body that is held
	held     *budget // over all streams
	pullBody bool    // ask for a needed body that Envoy would not send
	header   string  // that may name the model, for messages; "" for none
}

// machine is the protocol of one stream: it takes messages and decisions in the
// order in which they happen and says what to answer. It holds no lock, starts
// nothing and knows nothing of gRPC's machinery. Owned by one goroutine.
type machine struct {
	limits
	protocol
	phase phase

	said        *extprocv3.ProtocolConfiguration
	headers     *extprocv3.HttpHeaders // the request's; nil once the pick is answered
	upgrade     bool                   // the request asks for a tunnel: its body has no end
	use         bodyUse                // what the decision does with the body
	headersDone bool                   // the answer to the request headers is given

	// The request's body. Invariant: held holds what came and was not answered.
	held      []byte
	reserved  int64 // bytes taken from limits.held
	owed      int   // streamed: pieces that were not answered
	bodySeen  bool
	bodyEnded bool // end_of_stream was seen, in the headers or in a piece
	trailers  bool // trailers were seen

	response response

	repeats int // messages after the end of their body
}

// pin is a decision in the form in which Envoy takes it.
type pin struct {
	common   *extprocv3.CommonResponse
	metadata metadata
}

// requestDone reports whether nothing more can come of the request.
func (m *machine) requestDone() bool {
	whole := m.request == modeNone || m.bodySeen && (m.request == modeBuffered || m.request == modePartial)
	return m.phase == phaseOver || m.phase == phasePassing && (whole || m.bodyEnded || m.trailers)
}

// plainBody reports whether a body came that Envoy keeps itself.
func (m *machine) plainBody() bool { return m.bodySeen && m.request != modeDuplex }

// body returns the collected body. False if the decision is made without one.
func (m *machine) body() ([]byte, bool) { return m.held, m.use != bodyUnused }

// receive takes one message of Envoy's.
func (m *machine) receive(req *extprocv3.ProcessingRequest) step {
	if m.phase == phaseOver {
		return step{next: nextEnd}
	}
	if m.phase == phaseStart {
		m.said = req.GetProtocolConfig()
		m.protocol = readProtocol(m.said)
		if req.GetObservabilityMode() {
			s := m.fail("observability_mode is on: Envoy would not wait for an answer")
			s.setup = true
			return s
		}
		if problem := m.problem(req); problem != "" {
			return m.impossible(problem)
		}
	}
	switch r := req.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		return m.requestHeaders(r.RequestHeaders)
	case *extprocv3.ProcessingRequest_RequestBody:
		return m.requestBody(r.RequestBody)
	case *extprocv3.ProcessingRequest_RequestTrailers:
		return m.requestTrailers()
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return m.response.headers(r.ResponseHeaders)
	case *extprocv3.ProcessingRequest_ResponseBody:
		return m.responseBody(r.ResponseBody)
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		return m.response.trailers()
	default:
		return m.fail("a message of an unknown kind")
	}
}

// responseBody takes a piece of the response.
func (m *machine) responseBody(b *extprocv3.HttpBody) step {
	if m.response.ended {
		m.repeats++
	}
	return m.response.body(b, m.protocol.response)
}

// refuse ends the request with an immediate response.
func (m *machine) refuse(err *routing.Error) step {
	m.drop()
	m.phase = phaseOver
	return step{send: one(immediate(err)), next: nextEnd, refusal: err}
}

// impossible refuses a stream that is configured so that it cannot work.
func (m *machine) impossible(problem string) step {
	s := m.refuse(&routing.Error{Kind: routing.Unavailable, Reason: routing.Invalid, Message: "the gateway's ext_proc filter is not configured for this service: " + problem})
	s.fault, s.setup = problem, true
	return s
}

// fail ends the stream with a status that is not OK.
func (m *machine) fail(fault string) step {
	m.drop()
	m.phase = phaseOver
	return step{next: nextFail, fault: fault}
}

// hold keeps a piece of the body, or says why it may not.
func (m *machine) hold(piece []byte) *routing.Error {
	if int64(len(m.held))+int64(len(piece)) > m.limits.body {
		return tooLarge(m.limits.body)
	}
	if !m.limits.held.take(int64(len(piece))) {
		return &routing.Error{Kind: routing.Unavailable, Reason: routing.Overloaded, Message: "too many request bodies are being read at once", RetryAfter: retryAfter}
	}
	m.reserved += int64(len(piece))
	if len(m.held) == 0 {
		m.held = piece // most bodies come in one piece: no copy
	} else {
		m.held = append(m.held, piece...)
	}
	return nil
}

// settle gives back what was reserved for the held body, once all of it is on
// its way.
func (m *machine) settle() {
	m.limits.held.give(m.reserved)
	m.reserved = 0
}

// drop forgets the held body.
func (m *machine) drop() {
	m.held, m.owed = nil, 0
	m.settle()
}
