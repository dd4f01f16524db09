package extproc

import (
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// bodyMode is how Envoy sends the bodies of one direction, and so what it takes
// as an answer.
type bodyMode uint8

const (
	// modeUnsaid: Envoy did not say. A body that comes before the headers were
	// answered can only be full duplex; any other gets a plain answer.
	modeUnsaid bodyMode = iota
	// modeNone: no body is sent.
	modeNone
	// modeBuffered: one message with the whole body, after the headers were
	// answered and before they go on. One plain answer, which may still change
	// the headers.
	modeBuffered
	// modePartial: as modeBuffered, but a long body is cut.
	modePartial
	// modeStreamed: pieces, one plain answer each; the headers go on as soon as
	// they are answered.
	modeStreamed
	// modeDuplex: pieces, which Envoy does not keep: the body is what comes back.
	modeDuplex
	// modeImpossible: anything that cannot be answered here.
	modeImpossible
)

// readMode translates Envoy's name of a mode.
func readMode(m filterv3.ProcessingMode_BodySendMode) bodyMode {
	switch m {
	case filterv3.ProcessingMode_NONE:
		return modeNone
	case filterv3.ProcessingMode_BUFFERED:
		return modeBuffered
	case filterv3.ProcessingMode_BUFFERED_PARTIAL:
		return modePartial
	case filterv3.ProcessingMode_STREAMED:
		return modeStreamed
	case filterv3.ProcessingMode_FULL_DUPLEX_STREAMED:
		return modeDuplex
	default: // GRPC, which takes bodies apart, and what comes after it
		return modeImpossible
	}
}

// protocol is what Envoy says about the stream in its first message.
type protocol struct {
	request, response bodyMode
	eager             bool // body pieces do not wait for the answer to the headers
}

func readProtocol(c *extprocv3.ProtocolConfiguration) protocol {
	if c == nil {
		return protocol{}
	}
	p := protocol{request: readMode(c.GetRequestBodyMode()), response: readMode(c.GetResponseBodyMode())}
	p.eager = p.request == modeDuplex || p.request == modeStreamed && c.GetSendBodyWithoutWaitingForHeaderResponse()
	return p
}

// problem says why the filter cannot work as it is configured; "" if it can.
func (p protocol) problem(first *extprocv3.ProcessingRequest) string {
	_, headers := first.GetRequest().(*extprocv3.ProcessingRequest_RequestHeaders)
	switch {
	case p.request == modeImpossible:
		return "request_body_mode " + first.GetProtocolConfig().GetRequestBodyMode().String() + " is not supported"
	case p.response == modeImpossible:
		return "response_body_mode " + first.GetProtocolConfig().GetResponseBodyMode().String() + " is not supported"
	case !headers:
		return "the stream does not begin with request headers; request_header_mode must be SEND"
	default:
		return ""
	}
}

// pulledBody is the mode by which a body is asked for that Envoy would not send.
// Header and trailer modes of the response stay DEFAULT, which means as they are:
// Envoy takes the override for a spurious message if it would change them.
func pulledBody(said *extprocv3.ProtocolConfiguration) *filterv3.ProcessingMode {
	return &filterv3.ProcessingMode{
		RequestHeaderMode:  filterv3.ProcessingMode_SEND,
		RequestBodyMode:    filterv3.ProcessingMode_FULL_DUPLEX_STREAMED,
		RequestTrailerMode: filterv3.ProcessingMode_SEND,
		ResponseBodyMode:   said.GetResponseBodyMode(),
	}
}
