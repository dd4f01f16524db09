package extproc

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/structpb"

	"mooring/routing"
)

// The machine against scripts. One command a line; the output is what it
// answers, in order, and what it wants next. The whole state follows where it
// says "state".
func TestMachine(t *testing.T) {
	datadriven.Walk(t, "testdata/machine", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "stream" {
				s = newScript(t, d)
			}
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				fmt.Fprint(&out, s.do(t, strings.Fields(line)))
			}
			return out.String()
		})
	})
}

type script struct {
	m     machine
	first *extprocv3.ProcessingRequest // carries what Envoy says once
}

func newScript(t *testing.T, d *datadriven.TestData) *script {
	s := &script{first: &extprocv3.ProcessingRequest{}}
	s.m.limits = limits{body: 100, held: &budget{limit: 150}}
	for _, arg := range d.CmdArgs {
		config := s.first.GetProtocolConfig()
		if config == nil {
			config = &extprocv3.ProtocolConfiguration{}
		}
		switch arg.Key {
		case "request":
			config.RequestBodyMode = modeNamed(t, arg.Vals[0])
		case "response":
			config.ResponseBodyMode = modeNamed(t, arg.Vals[0])
		case "eager":
			config.SendBodyWithoutWaitingForHeaderResponse = true
		case "observe":
			s.first.ObservabilityMode = true
		case "pull":
			s.m.pullBody = true
			continue
		case "header":
			s.m.limits.header = arg.Vals[0]
			continue
		case "used":
			n, err := strconv.ParseInt(arg.Vals[0], 10, 64)
			if err != nil || !s.m.limits.held.take(n) {
				t.Fatalf("used: %v", err)
			}
			continue
		default:
			t.Fatalf("unknown argument %s", arg)
		}
		s.first.ProtocolConfig = config
	}
	return s
}

func modeNamed(t *testing.T, name string) filterv3.ProcessingMode_BodySendMode {
	n, ok := filterv3.ProcessingMode_BodySendMode_value[name]
	if !ok {
		t.Fatalf("unknown mode %q", name)
	}
	return filterv3.ProcessingMode_BodySendMode(n)
}

func (s *script) do(t *testing.T, words []string) string {
	args := words[1:]
	switch words[0] {
	case "examined":
		use := map[string]bodyUse{"": bodyUnused, "wants": bodyWanted, "needs": bodyNeeded}
		return show(s.m.examined(use[strings.Join(args, " ")]))
	case "decided":
		return show(s.m.decided(pin{common: &extprocv3.CommonResponse{HeaderMutation: &extprocv3.HeaderMutation{RemoveHeaders: []string{"x"}}}, metadata: &structpb.Struct{}}))
	case "refused":
		return show(s.m.refuse(&routing.Error{Kind: routing.UnknownModel, Reason: routing.NoModel, Message: "no"}))
	case "state":
		m := &s.m
		return fmt.Sprintf("phase=%v held=%d reserved=%d owed=%d ended=%v trailers=%v done=%v response(started=%v ended=%v) repeats=%d used=%d\n",
			m.phase, len(m.held), m.reserved, m.owed, m.bodyEnded, m.trailers, m.requestDone(), m.response.started, m.response.ended, m.repeats, m.limits.held.used.Load())
	default:
		req := message(t, words[0], args)
		if s.m.phase == phaseStart {
			req.ProtocolConfig, req.ObservabilityMode = s.first.ProtocolConfig, s.first.ObservabilityMode
		}
		return show(s.m.receive(req))
	}
}

// message builds what Envoy sends: headers [name=value...] [end], body text|*n
// [end], trailers, and the same with "response-" before.
func message(t *testing.T, kind string, args []string) *extprocv3.ProcessingRequest {
	end := len(args) > 0 && args[len(args)-1] == "end"
	if end {
		args = args[:len(args)-1]
	}
	switch kind {
	case "headers":
		return requestHeadersMessage(end, args...)
	case "body":
		return requestBodyMessage(bodyOf(args), end)
	case "trailers":
		return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocv3.HttpTrailers{}}}
	case "response-headers":
		return responseHeadersMessage(end, args...)
	case "response-body":
		return responseBodyMessage(bodyOf(args), end)
	case "response-trailers":
		return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{}}}
	case "nothing":
		return &extprocv3.ProcessingRequest{}
	default:
		t.Fatalf("unknown command %s", kind)
		return nil
	}
}

func bodyOf(args []string) []byte {
	if len(args) == 0 {
		return nil
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(args[0], "*")); err == nil && args[0][0] == '*' {
		return []byte(strings.Repeat("x", n))
	}
	return []byte(args[0])
}

func headerMap(pairs []string) *corev3.HeaderMap {
	h := &corev3.HeaderMap{}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		h.Headers = append(h.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	return h
}

func requestHeadersMessage(end bool, pairs ...string) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{
		RequestHeaders: &extprocv3.HttpHeaders{Headers: headerMap(pairs), EndOfStream: end},
	}}
}

func responseHeadersMessage(end bool, pairs ...string) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &extprocv3.HttpHeaders{Headers: headerMap(pairs), EndOfStream: end},
	}}
}

func requestBodyMessage(body []byte, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: body, EndOfStream: end}}}
}

func responseBodyMessage(body []byte, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{Body: body, EndOfStream: end}}}
}

func show(s step) string {
	var out strings.Builder
	for _, r := range s.send {
		fmt.Fprintf(&out, "-> %s\n", showAnswer(r))
	}
	names := map[next]string{nextReceive: "receive", nextExamine: "examine", nextPick: "pick", nextEnd: "end", nextFail: "fail"}
	fmt.Fprintf(&out, "%s", names[s.next])
	if s.fault != "" {
		fmt.Fprintf(&out, ": %s", s.fault)
	}
	out.WriteString("\n")
	return out.String()
}

func showAnswer(r *extprocv3.ProcessingResponse) string {
	text := ""
	switch a := r.GetResponse().(type) {
	case *extprocv3.ProcessingResponse_RequestHeaders:
		text = "headers" + showCommon(a.RequestHeaders.GetResponse())
	case *extprocv3.ProcessingResponse_RequestBody:
		text = "body" + showCommon(a.RequestBody.GetResponse())
	case *extprocv3.ProcessingResponse_RequestTrailers:
		text = "trailers"
	case *extprocv3.ProcessingResponse_ResponseHeaders:
		text = "response-headers" + showCommon(a.ResponseHeaders.GetResponse())
	case *extprocv3.ProcessingResponse_ResponseBody:
		text = "response-body" + showCommon(a.ResponseBody.GetResponse())
	case *extprocv3.ProcessingResponse_ResponseTrailers:
		text = "response-trailers"
	case *extprocv3.ProcessingResponse_ImmediateResponse:
		text = fmt.Sprintf("immediate %d %s %s", a.ImmediateResponse.GetStatus().GetCode(), a.ImmediateResponse.GetDetails(), a.ImmediateResponse.GetBody())
	case nil:
		text = "override " + r.GetModeOverride().GetRequestBodyMode().String()
	}
	if r.GetImmediateResponse() == nil && r.GetDynamicMetadata() != nil {
		text += " with metadata"
	}
	return text
}

func showCommon(c *extprocv3.CommonResponse) string {
	text := ""
	if c.GetHeaderMutation() != nil {
		text += " with mutation"
	}
	if p := c.GetBodyMutation().GetStreamedResponse(); p != nil {
		body := string(p.GetBody())
		if len(body) > 20 {
			body = fmt.Sprintf("*%d", len(body))
		}
		text += fmt.Sprintf(" piece %q", body)
		if p.GetEndOfStream() {
			text += " end"
		}
	}
	return text
}
