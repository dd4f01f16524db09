package extproc

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// envoysim is a model of Envoy's side of one stream, written from the API's
// comments and facts/envoy-extproc.md, not from the machine. It sends what Envoy
// would in an order that a schedule decides, and fails on any answer that Envoy
// would call spurious, on one that is missing, and on any byte that is lost,
// doubled or out of order.
type envoysim struct {
	t    testing.TB
	plan plan
	pipe *pipe

	ends     End                                  // how the server learns of the end
	mode     filterv3.ProcessingMode_BodySendMode // in force, after an override
	request  side
	response side

	picked    bool // the headers may go to the worker
	immediate bool
	overrode  bool
}

// plan is one HTTP request and its response.
type plan struct {
	said            bool // Envoy says its modes
	eager           bool
	request, answer filterv3.ProcessingMode_BodySendMode
	headers         []string
	bodyless        bool
	pieces          [][]byte // of the request
	trailers        bool
	repeatEnd       bool
	responsePieces  [][]byte
	responseTrail   bool
}

// side is one direction's progress.
type side struct {
	sent         int // of its messages, in order
	headersOwed  bool
	headersDone  bool
	bodySent     int // messages
	bodyAnswered int
	back         []byte // full duplex
	backEnded    bool
	trailersOwed bool
	trailersDone bool
}

func (s *envoysim) failf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s\nplan: %+v", fmt.Sprintf(format, args...), s.summary())
}

func (s *envoysim) summary() string {
	return fmt.Sprintf("request %v answer %v said %v eager %v bodyless %v pieces %d trailers %v repeat %v", s.plan.request, s.plan.answer, s.plan.said, s.plan.eager, s.plan.bodyless, len(s.plan.pieces), s.plan.trailers, s.plan.repeatEnd)
}

// messages lists the request direction's messages in order.
func (s *envoysim) messages() []*extprocv3.ProcessingRequest {
	first := requestHeadersMessage(s.plan.bodyless, s.plan.headers...)
	if s.plan.said {
		first.ProtocolConfig = &extprocv3.ProtocolConfiguration{
			RequestBodyMode: s.plan.request, ResponseBodyMode: s.plan.answer, SendBodyWithoutWaitingForHeaderResponse: s.plan.eager,
		}
	}
	all := []*extprocv3.ProcessingRequest{first}
	if s.plan.bodyless || s.mode == filterv3.ProcessingMode_NONE {
		return all
	}
	pieces := s.plan.pieces
	if s.mode == filterv3.ProcessingMode_BUFFERED || s.mode == filterv3.ProcessingMode_BUFFERED_PARTIAL {
		pieces = [][]byte{bytes.Join(pieces, nil)}
	}
	for i, piece := range pieces {
		all = append(all, requestBodyMessage(slices.Clone(piece), i == len(pieces)-1 && !s.plan.trailers))
	}
	if s.plan.repeatEnd && !s.plan.trailers {
		all = append(all, requestBodyMessage(nil, true))
	}
	if s.plan.trailers {
		all = append(all, message(nil, "trailers", nil))
	}
	return all
}

func (s *envoysim) duplex() bool { return s.mode == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED }

// nextRequest returns the request's next message if Envoy would send it now.
func (s *envoysim) nextRequest() *extprocv3.ProcessingRequest {
	all := s.messages()
	if s.request.sent >= len(all) {
		return nil
	}
	m := all[s.request.sent]
	switch m.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestBody:
		if !s.request.headersDone && !s.duplex() && !(s.plan.eager && s.mode == filterv3.ProcessingMode_STREAMED) {
			return nil
		}
	case *extprocv3.ProcessingRequest_RequestTrailers:
		if !s.duplex() && (!s.request.headersDone || s.request.bodyAnswered < s.request.bodySent) {
			return nil
		}
	}
	return m
}

func (s *envoysim) responseMessages() []*extprocv3.ProcessingRequest {
	end := len(s.plan.responsePieces) == 0 && !s.plan.responseTrail
	all := []*extprocv3.ProcessingRequest{responseHeadersMessage(end, ":status=200")}
	if s.plan.answer != filterv3.ProcessingMode_NONE {
		for i, piece := range s.plan.responsePieces {
			all = append(all, responseBodyMessage(slices.Clone(piece), i == len(s.plan.responsePieces)-1 && !s.plan.responseTrail))
		}
	}
	if s.plan.responseTrail {
		all = append(all, message(nil, "response-trailers", nil))
	}
	return all
}

func (s *envoysim) nextResponse() *extprocv3.ProcessingRequest {
	all := s.responseMessages()
	if !s.picked || s.response.sent >= len(all) {
		return nil
	}
	if s.response.sent > 0 && !s.response.headersDone && s.plan.answer != filterv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		return nil
	}
	return all[s.response.sent]
}

// send hands m to the server and notes what it owes for it.
func (s *envoysim) send(m *extprocv3.ProcessingRequest) {
	switch m.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		s.request.headersOwed = true
	case *extprocv3.ProcessingRequest_RequestBody:
		s.request.bodySent++
	case *extprocv3.ProcessingRequest_RequestTrailers:
		s.request.trailersOwed = true
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		s.response.headersOwed = true
	case *extprocv3.ProcessingRequest_ResponseBody:
		s.response.bodySent++
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		s.response.trailersOwed = true
	}
	select {
	case s.pipe.in <- m:
	case <-s.pipe.ctx.Done():
	}
}

// listen takes all answers that the server has for now.
func (s *envoysim) listen() {
	synctest.Wait()
	for _, r := range s.pipe.take() {
		s.answer(r)
	}
}

func (s *envoysim) answer(r *extprocv3.ProcessingResponse) {
	if s.immediate {
		s.failf("an answer after the immediate response: %s", showAnswer(r))
	}
	if r.GetImmediateResponse() == nil && r.GetDynamicMetadata() != nil {
		s.takePick(r)
	}
	switch a := r.GetResponse().(type) {
	case nil:
		s.override(r.GetModeOverride())
	case *extprocv3.ProcessingResponse_ImmediateResponse:
		if s.picked {
			s.failf("refused after the pick")
		}
		if code := a.ImmediateResponse.GetStatus().GetCode(); code < 400 {
			s.failf("refused with status %d", code)
		}
		s.immediate = true
	case *extprocv3.ProcessingResponse_RequestHeaders:
		s.headers(&s.request)
		if s.mode == filterv3.ProcessingMode_STREAMED || s.duplex() || s.mode == filterv3.ProcessingMode_NONE || s.plan.bodyless {
			s.mustBePicked()
		}
	case *extprocv3.ProcessingResponse_RequestBody:
		s.body(&s.request, a.RequestBody.GetResponse(), s.mode)
		s.mustBePicked()
	case *extprocv3.ProcessingResponse_RequestTrailers:
		s.trailers(&s.request, s.duplex())
	case *extprocv3.ProcessingResponse_ResponseHeaders:
		s.headers(&s.response)
	case *extprocv3.ProcessingResponse_ResponseBody:
		s.body(&s.response, a.ResponseBody.GetResponse(), s.plan.answer)
	case *extprocv3.ProcessingResponse_ResponseTrailers:
		s.trailers(&s.response, s.plan.answer == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED)
	default:
		s.failf("an answer that Envoy does not know: %T", a)
	}
}

// mustBePicked: what was just answered lets the request go to a worker.
func (s *envoysim) mustBePicked() {
	if !s.picked {
		s.failf("the request goes on without a pick")
	}
}

func (s *envoysim) takePick(r *extprocv3.ProcessingResponse) {
	if s.picked {
		s.failf("a second pick")
	}
	s.picked = true
	mutation := r.GetRequestHeaders().GetResponse().GetHeaderMutation()
	if mutation == nil {
		mutation = r.GetRequestBody().GetResponse().GetHeaderMutation()
	}
	fields := r.GetDynamicMetadata().GetFields()
	if fields[namespaceLB].GetStructValue().GetFields()[headerDestination].GetStringValue() == "" {
		s.failf("a pick without a destination")
	}
	if len(mutation.GetSetHeaders()) == 0 || len(mutation.GetRemoveHeaders()) == 0 {
		s.failf("a pick that leaves the client's headers alone")
	}
	for _, h := range mutation.GetSetHeaders() {
		if h.GetHeader().GetValue() != "" || len(h.GetHeader().GetRawValue()) == 0 || slices.Contains(mutation.GetRemoveHeaders(), h.GetHeader().GetKey()) {
			s.failf("header %v", h)
		}
	}
}

func (s *envoysim) override(m *filterv3.ProcessingMode) {
	legal := s.mode == filterv3.ProcessingMode_NONE && m.GetRequestBodyMode() == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED &&
		m.GetRequestTrailerMode() == filterv3.ProcessingMode_SEND && s.request.headersOwed && !s.overrode
	if !legal {
		s.failf("spurious mode override: %v", m)
	}
	s.overrode = true
	s.mode = m.GetRequestBodyMode()
}

func (s *envoysim) headers(d *side) {
	if !d.headersOwed || d.headersDone {
		s.failf("spurious answer to headers")
	}
	d.headersDone = true
}

func (s *envoysim) body(d *side, c *extprocv3.CommonResponse, mode filterv3.ProcessingMode_BodySendMode) {
	piece := c.GetBodyMutation().GetStreamedResponse()
	if !d.headersDone {
		s.failf("a body's answer before the headers'")
	}
	if d.trailersDone {
		s.failf("a body's answer after the trailers'")
	}
	if mode != filterv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		if piece != nil {
			s.failf("a streamed answer in mode %v", mode)
		}
		if d.bodyAnswered++; d.bodyAnswered > d.bodySent {
			s.failf("more answers than pieces")
		}
		return
	}
	if piece == nil {
		s.failf("a plain answer in full duplex")
	}
	if d.backEnded {
		s.failf("a piece after the end")
	}
	if len(piece.GetBody()) > 62_000 {
		s.failf("a piece of %d bytes", len(piece.GetBody()))
	}
	d.back = append(d.back, piece.GetBody()...)
	d.backEnded = piece.GetEndOfStream()
}

func (s *envoysim) trailers(d *side, duplex bool) {
	if !d.trailersOwed || d.trailersDone {
		s.failf("spurious answer to trailers")
	}
	if !d.headersDone || !duplex && d.bodyAnswered < d.bodySent {
		s.failf("the trailers' answer comes too early")
	}
	d.trailersDone = true
}

// complete fails unless everything that was sent has been answered.
func (s *envoysim) complete() {
	s.sideComplete("request", &s.request, s.mode, s.plan.pieces, s.plan.trailers, s.plan.bodyless)
	s.sideComplete("response", &s.response, s.plan.answer, s.plan.responsePieces, s.plan.responseTrail, len(s.plan.responsePieces) == 0)
}

func (s *envoysim) sideComplete(name string, d *side, mode filterv3.ProcessingMode_BodySendMode, pieces [][]byte, trailers, bodyless bool) {
	switch {
	case !d.headersOwed:
		return
	case !d.headersDone:
		s.failf("%s: the headers were not answered", name)
	case d.trailersOwed && !d.trailersDone:
		s.failf("%s: the trailers were not answered", name)
	case mode == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED && !bodyless:
		if want := bytes.Join(pieces, nil); !bytes.Equal(d.back, want) {
			s.failf("%s: %d bytes came back of %d, or others", name, len(d.back), len(want))
		}
		if d.backEnded == trailers {
			s.failf("%s: ended %v, with trailers %v", name, d.backEnded, trailers)
		}
	case mode != filterv3.ProcessingMode_FULL_DUPLEX_STREAMED && d.bodyAnswered != d.bodySent:
		s.failf("%s: %d of %d body messages were answered", name, d.bodyAnswered, d.bodySent)
	}
}

// mayBeLeft reports whether the server may end the stream: the access log tells
// of the end, and the whole body, which Envoy keeps itself, is answered. Trailers
// then pass as they are.
func (s *envoysim) mayBeLeft() bool {
	bodies := 0
	for _, m := range s.messages() {
		if m.GetRequestBody() != nil {
			bodies++
		}
	}
	if s.plan.repeatEnd && !s.plan.trailers {
		bodies-- // nobody waits for a repetition
	}
	return s.ends == AccessLog && s.picked && !s.duplex() && bodies > 0 && s.request.bodyAnswered >= bodies
}

// leave ends the stream as Envoy may, and returns what the server made of it.
func (s *envoysim) leave(graceful bool) error {
	if graceful {
		close(s.pipe.in)
	} else {
		s.pipe.reset()
	}
	err := <-s.pipe.result
	if err == nil && !s.picked && !s.immediate {
		// Answers may have been on their way.
		for _, r := range s.pipe.take() {
			s.answer(r)
		}
		if !s.picked && !s.immediate {
			s.failf("the stream ended with OK before the pick")
		}
	}
	if code := status.Code(err); err != nil && code != codes.Canceled {
		s.failf("the stream ended with %v", err)
	}
	return err
}
