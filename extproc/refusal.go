package extproc

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"google.golang.org/protobuf/types/known/structpb"

	"mooring/routing"
)

// retryAfter is what a client is told when trying again soon may help.
const retryAfter = time.Second

// detailsPrefix begins the response code details of a refusal; its reason follows.
const detailsPrefix = "mooring_"

// errorBody is the answer to a refused request, in OpenAI's shape:
//
//	{"error":{"message":"no worker can take this request now","type":"service_unavailable","code":"no_worker"}}
type errorBody struct {
	Error struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"` // the reason, of the list in package routing
	} `json:"error"`
}

// statusOf maps the kind of a refusal to a status and to OpenAI's type of it.
func statusOf(kind routing.Kind) (code typev3.StatusCode, class string) {
	switch kind {
	case routing.BadRequest:
		return typev3.StatusCode_BadRequest, "invalid_request_error"
	case routing.UnknownModel:
		return typev3.StatusCode_NotFound, "invalid_request_error"
	case routing.Conflict:
		return typev3.StatusCode_Conflict, "invalid_request_error"
	case routing.TooBig:
		return typev3.StatusCode_PayloadTooLarge, "invalid_request_error"
	case routing.Busy:
		return typev3.StatusCode_TooManyRequests, "rate_limit_error"
	case routing.Unavailable, routing.TimedOut:
		return typev3.StatusCode_ServiceUnavailable, "service_unavailable"
	default:
		return typev3.StatusCode_ServiceUnavailable, "service_unavailable"
	}
}

// statusCode is the HTTP status of a kind of refusal.
func statusCode(kind routing.Kind) int {
	code, _ := statusOf(kind)
	return int(code)
}

// immediate is the one place where refusals become answers.
func immediate(err *routing.Error) *extprocv3.ProcessingResponse {
	code, class := statusOf(err.Kind)
	var body errorBody
	body.Error.Message, body.Error.Type, body.Error.Code = err.Message, class, err.Reason.String()
	text, jsonErr := json.Marshal(body)
	if jsonErr != nil {
		panic(jsonErr) // three strings always encode
	}
	headers := []*corev3.HeaderValueOption{set("content-type", "application/json")}
	if after := max(err.RetryAfter, minRetryAfter(err.Kind)); after > 0 {
		seconds := int64((after + time.Second - 1) / time.Second)
		headers = append(headers, set("retry-after", strconv.FormatInt(seconds, 10)))
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &extprocv3.ImmediateResponse{
			Status:  &typev3.HttpStatus{Code: code},
			Headers: &extprocv3.HeaderMutation{SetHeaders: headers},
			Body:    text,
			Details: detailsPrefix + err.Reason.String(),
		},
	}, DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		namespaceMooring: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"reason": structpb.NewStringValue(err.Reason.String()),
		}}),
	}}}
}

// minRetryAfter is what the kinds that a retry cures say if the refusal does not.
func minRetryAfter(kind routing.Kind) time.Duration {
	if kind == routing.Busy || kind == routing.TimedOut {
		return retryAfter
	}
	return 0
}

func tooLarge(limit int64) *routing.Error {
	return &routing.Error{Kind: routing.TooBig, Reason: routing.TooLarge, Message: fmt.Sprintf("the request's body is longer than the %d bytes that are allowed", limit)}
}

// cutBody replaces the complaint about a body of which Envoy passed a part only.
func cutBody(length int) *routing.Error {
	return &routing.Error{Kind: routing.TooBig, Reason: routing.TooLarge, Message: fmt.Sprintf("the model cannot be known: the gateway passes only the first %d bytes of this body to its router", length)}
}

func timedOut(message string) *routing.Error {
	return &routing.Error{Kind: routing.TimedOut, Reason: routing.Deadline, Message: message, RetryAfter: retryAfter}
}
