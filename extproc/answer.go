package extproc

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"mooring/routing"
)

// maxPiece bounds one piece of a full duplex body: Envoy recommends at most 64
// KiB and some builds enforce it.
const maxPiece = 62_000

// Names that Envoy and workers know.
const (
	headerDestination = "x-gateway-destination-endpoint"
	headerServed      = "x-gateway-destination-endpoint-served"
	headerSubset      = "x-gateway-destination-endpoint-subset"
	headerWorker      = "x-dynamo-worker-instance-id"
	headerRank        = "x-dynamo-dp-rank"
	headerVLLMRank    = "x-data-parallel-rank" // vLLM's own, for engines that have ranks

	namespaceLB      = "envoy.lb" // of what Envoy's load balancer reads
	namespaceMooring = "mooring"  // of what comes back in the access log
	keyReplica       = "replica"
	keyLease         = "lease"
)

// metadata is dynamic metadata: one Struct for each namespace.
type metadata = *structpb.Struct

// neverPassed lists the headers that no client may send past the router and
// that the answer never sets.
func neverPassed() []string {
	return []string{
		headerServed, headerSubset, "x-mooring-worker", "x-mooring-reason",
		"x-worker-instance-id", "x-dp-rank",
		"x-dynamo-prefill-instance-id", "x-prefill-instance-id", "x-dynamo-prefill-dp-rank", "x-prefill-dp-rank",
	}
}

// answers makes the answers to picks. It is immutable.
type answers struct {
	replica     string
	destination bool // also as a header
	remove      wire // of a HeaderMutation: what is removed in every answer
}

func newAnswers(cfg *Config) *answers {
	a := &answers{replica: strconv.FormatUint(cfg.ReplicaID, 10), destination: cfg.DestinationHeader}
	for _, name := range neverPassed() {
		a.remove = a.remove.remove(name)
	}
	return a
}

// pin turns a route and the number of its lease into an answer.
func (a *answers) pin(rt *routing.Route, lease uint64) pin {
	worker := rt.Target.Worker.String()
	return pin{common: a.headers(rt, worker), metadata: a.metadata(rt, worker, lease)}
}

// headers is what Envoy does to the request's headers.
func (a *answers) headers(rt *routing.Route, worker string) *extprocv3.CommonResponse {
	rank := strconv.FormatUint(uint64(rt.Target.Rank), 10)
	choose := func(w wire, name, value string, wanted bool) wire {
		if wanted {
			return w.set(name, value)
		}
		return w.remove(name)
	}
	const most = 256 // what is written besides a.remove
	return make(wire, 0, len(a.remove)+most).message(fieldMutation, func(w wire) wire {
		w = append(w, a.remove...).set(headerWorker, worker)
		w = choose(w, headerRank, rank, rt.Target.Ranked)
		w = choose(w, headerVLLMRank, rank, rt.Target.Ranked && rt.Ranks > 1)
		return choose(w, headerDestination, rt.Address, a.destination)
	}).asCommon()
}

// metadata is what Envoy's load balancer and the access log read.
func (a *answers) metadata(rt *routing.Route, worker string, lease uint64) metadata {
	const most = 256
	return make(wire, 0, most).structEntry(namespaceLB, func(w wire) wire {
		return w.stringEntry(headerDestination, rt.Address)
	}).structEntry(namespaceMooring, func(w wire) wire {
		return w.stringEntry(keyReplica, a.replica).stringEntry(keyLease, strconv.FormatUint(lease, 10)).
			stringEntry("worker", worker).stringEntry("reason", rt.Reason.String())
	}).asMetadata()
}

// set overwrites a header. Only raw_value: a value in both fields is an error to
// Envoy, and one in value alone arrives empty.
func set(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, RawValue: []byte(value)}}
}

// headerValues returns the values of a header, named in lower case.
func headerValues(h *extprocv3.HttpHeaders, name string) []string {
	var values []string
	for _, kv := range h.GetHeaders().GetHeaders() {
		if len(kv.GetKey()) != len(name) || !strings.EqualFold(kv.GetKey(), name) {
			continue
		}
		// Envoy fills raw_value; others fill value. If both are there, raw_value
		// is what Envoy means.
		if raw := kv.GetRawValue(); len(raw) > 0 {
			values = append(values, string(raw))
		} else {
			values = append(values, kv.GetValue())
		}
	}
	return values
}

// cut appends body to out in pieces. An empty piece says nothing unless it ends
// the body.
func cut(out []*extprocv3.ProcessingResponse, body []byte, end bool, piece func([]byte, bool) *extprocv3.ProcessingResponse) []*extprocv3.ProcessingResponse {
	for len(body) > maxPiece {
		out = append(out, piece(body[:maxPiece:maxPiece], false))
		body = body[maxPiece:]
	}
	if len(body) > 0 || end {
		out = append(out, piece(body, end))
	}
	return out
}

func requestPiece(body []byte, end bool) *extprocv3.ProcessingResponse {
	return bodyResponse(streamed(body, end))
}

func responsePiece(body []byte, end bool) *extprocv3.ProcessingResponse {
	return responseBody(streamed(body, end))
}

func streamed(body []byte, end bool) *extprocv3.CommonResponse {
	return &extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
		StreamedResponse: &extprocv3.StreamedBodyResponse{Body: body, EndOfStream: end},
	}}}
}

func headersResponse(c *extprocv3.CommonResponse) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{Response: c}}}
}

func bodyResponse(c *extprocv3.CommonResponse) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{Response: c}}}
}

func responseBody(c *extprocv3.CommonResponse) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: &extprocv3.BodyResponse{Response: c}}}
}

func trailersResponse() *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocv3.TrailersResponse{}}}
}

func one(r *extprocv3.ProcessingResponse) []*extprocv3.ProcessingResponse {
	return []*extprocv3.ProcessingResponse{r}
}
