package extproc

import (
	"strconv"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"mooring/routing"
)

func (m *machine) requestHeaders(h *extprocv3.HttpHeaders) step {
	if m.phase != phaseStart {
		return m.fail("a second message of request headers")
	}
	m.headers, m.bodyEnded = h, h.GetEndOfStream()
	m.upgrade = isUpgrade(h)
	m.phase = phaseExamining
	return step{next: nextExamine}
}

// isUpgrade reports whether the request wants a tunnel (HTTP/1.1 upgrade,
// CONNECT), whose bytes are no body that ends.
func isUpgrade(h *extprocv3.HttpHeaders) bool {
	if h.GetEndOfStream() {
		return false
	}
	method := headerValues(h, ":method")
	return len(headerValues(h, "upgrade")) > 0 || len(method) > 0 && method[0] == "CONNECT"
}

// examined says what the decision does with the body. A request that has none, or
// none that ends, is decided as it is, and so is one whose body is only wanted and
// cannot be had, or might never come.
func (m *machine) examined(use bodyUse) step {
	tooLong := m.declaredLength() > m.limits.body
	if m.bodyEnded || m.upgrade || use == bodyWanted && (tooLong || m.request == modeUnsaid || !m.bodyComes()) {
		use = bodyUnused
	}
	// What Envoy buffers comes in one message, which must fit.
	if (use == bodyNeeded && m.request != modePartial || m.request == modeBuffered) && tooLong {
		return m.refuse(tooLarge(m.limits.body))
	}
	if use == bodyUnused {
		m.phase = phasePicking
		return step{next: nextPick}
	}
	m.use = use
	m.phase = phaseCollecting
	switch {
	case !m.bodyComes():
		return m.refuse(m.noBody())
	case m.request == modeBuffered || m.request == modePartial:
		m.headersDone = true
		return step{send: one(headersResponse(&extprocv3.CommonResponse{}))}
	case m.request == modeNone:
		m.request, m.eager = modeDuplex, true
		return step{send: one(&extprocv3.ProcessingResponse{ModeOverride: pulledBody(m.said)})}
	default:
		return step{}
	}
}

// bodyComes reports whether the body comes, or can be made to come, before the
// request headers are answered for good.
func (m *machine) bodyComes() bool {
	switch m.request {
	case modeNone:
		return m.pullBody && m.protocol.response != modeDuplex // beside that Envoy takes no override
	case modeStreamed:
		return m.eager
	default:
		return true
	}
}

// declaredLength is the content-length; 0 if there is none to be believed.
func (m *machine) declaredLength() int64 {
	for _, v := range headerValues(m.headers, "content-length") {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// noBody refuses a request whose body is needed and never comes.
func (m *machine) noBody() *routing.Error {
	message := "the model cannot be known: this gateway passes no request bodies to its router"
	if m.limits.header != "" {
		message += "; name the model in header " + m.limits.header
	}
	return &routing.Error{Kind: routing.BadRequest, Reason: routing.Invalid, Message: message}
}

func (m *machine) requestBody(b *extprocv3.HttpBody) step {
	if m.bodyEnded {
		return m.repeatedEnd()
	}
	if m.request == modeUnsaid && !m.headersDone {
		m.request = modeDuplex
	}
	m.bodySeen = true
	m.bodyEnded = b.GetEndOfStream()
	if m.phase == phasePassing {
		return m.pass(b)
	}
	m.owed++
	if err := m.hold(b.GetBody()); err != nil {
		if m.phase == phaseCollecting && m.use == bodyWanted {
			return m.doWithout(b.GetBody())
		}
		return m.refuse(err)
	}
	whole := m.bodyEnded || m.request == modeBuffered || m.request == modePartial
	if m.phase != phaseCollecting || !whole {
		return step{}
	}
	m.phase = phasePicking
	return step{next: nextPick}
}

// doWithout decides without a body that was only wanted and is too long. What came
// of it, with one piece over the limit, is held for no longer than the decision.
func (m *machine) doWithout(piece []byte) step {
	m.held = append(m.held, piece...)
	m.use = bodyUnused
	m.phase = phasePicking
	return step{next: nextPick}
}

// repeatedEnd takes a body message after the end of the body, as some versions
// of Envoy send for long bodies. In full duplex an answer would be a second end;
// elsewhere Envoy waits for one.
func (m *machine) repeatedEnd() step {
	m.repeats++
	switch {
	case m.request == modeDuplex || m.request == modeUnsaid && !m.headersDone:
		return step{}
	case m.phase != phasePassing:
		m.owed++
		return step{}
	default:
		return step{send: one(bodyResponse(&extprocv3.CommonResponse{}))}
	}
}

// pass answers a piece of the body after the pick.
func (m *machine) pass(b *extprocv3.HttpBody) step {
	if m.request != modeDuplex {
		return step{send: one(bodyResponse(&extprocv3.CommonResponse{}))}
	}
	return step{send: cut(nil, b.GetBody(), b.GetEndOfStream(), requestPiece)}
}

func (m *machine) requestTrailers() step {
	if m.trailers {
		return m.fail("a second message of request trailers")
	}
	m.trailers = true
	switch {
	case m.phase == phasePassing:
		return step{send: one(trailersResponse())}
	case m.phase != phaseCollecting:
		return step{}
	case m.headersDone:
		// Nothing can be pinned any more: the headers were let go for the sake
		// of a body that does not exist.
		message := "the request has trailers and no body"
		if m.use == bodyNeeded {
			message = "the model cannot be known: the request has no body"
		}
		return m.refuse(&routing.Error{Kind: routing.BadRequest, Reason: routing.Invalid, Message: message})
	}
	m.phase = phasePicking
	return step{next: nextPick}
}

// decided answers the pick, and then all that was held back for it.
func (m *machine) decided(p pin) step {
	m.phase = phasePassing
	s := step{}
	if m.headersDone {
		answer := bodyResponse(p.common)
		answer.DynamicMetadata = p.metadata
		s.send = append(s.send, answer)
		m.owed--
	} else {
		answer := headersResponse(p.common)
		answer.DynamicMetadata = p.metadata
		s.send = append(s.send, answer)
	}
	m.headersDone = true
	switch {
	case m.request == modeDuplex && m.bodySeen:
		s.send = cut(s.send, m.held, m.bodyEnded, requestPiece)
	case m.request != modeDuplex:
		for range m.owed {
			s.send = append(s.send, bodyResponse(&extprocv3.CommonResponse{}))
		}
	}
	if m.trailers {
		s.send = append(s.send, trailersResponse())
	}
	m.held, m.owed, m.headers = nil, 0, nil
	return s
}

// partial reports whether the body that was collected may be cut.
func (m *machine) partial() bool { return m.request == modePartial && !m.bodyEnded }
