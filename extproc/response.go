package extproc

import (
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// response is the other direction: everything passes unchanged and at once, and
// its end is noted.
type response struct {
	started bool // final headers were seen
	ended   bool
}

func (r *response) headers(h *extprocv3.HttpHeaders) step {
	// 1xx headers announce the response, they do not begin it.
	status := headerValues(h, ":status")
	if len(status) == 0 || len(status[0]) == 0 || status[0][0] != '1' {
		r.started = true
		r.ended = r.ended || h.GetEndOfStream()
	}
	return step{send: one(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
		ResponseHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{}},
	}})}
}

func (r *response) body(b *extprocv3.HttpBody, mode bodyMode) step {
	repeated := r.ended
	r.ended = r.ended || b.GetEndOfStream()
	switch {
	case mode != modeDuplex:
		return step{send: one(responseBody(&extprocv3.CommonResponse{}))}
	case repeated:
		return step{}
	default:
		return step{send: cut(nil, b.GetBody(), b.GetEndOfStream(), responsePiece)}
	}
}

func (r *response) trailers() step {
	r.started, r.ended = true, true
	return step{send: one(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{
		ResponseTrailers: &extprocv3.TrailersResponse{},
	}})}
}
