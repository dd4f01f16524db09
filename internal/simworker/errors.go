package simworker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// refusal says why a request was answered with an error. A closed list: it is
// a metric label.
type refusal string

const (
	refusedBad       refusal = "bad_request"
	refusedModel     refusal = "unknown_model"
	refusedLarge     refusal = "too_large"
	refusedSlow      refusal = "slow_body"
	refusedQueueFull refusal = "queue_full"
	refusedSimulated refusal = "simulated"
	refusedNoRoute   refusal = "no_route"
	refusedBusy      refusal = "busy"
)

// apiError is an answer other than success.
type apiError struct {
	status  int
	why     refusal
	message string
}

func (e *apiError) Error() string { return e.message }

func badRequest(format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, refusedBad, fmt.Sprintf(format, args...)}
}

// errorBody is the wire form of an error, as vLLM has it:
//
//	{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}}
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// answerError turns a handler's error into an answer. An error that is no
// apiError is a client that left or a connection that broke: the response is
// cut off, because there may be half of it.
func (w *Worker) answerError(rw http.ResponseWriter, err error) {
	var e *apiError
	if !errors.As(err, &e) {
		panic(http.ErrAbortHandler)
	}
	w.metrics.refused.WithLabelValues(string(e.why)).Inc()
	writeJSON(rw, e.status, errorBody{errorDetail{Message: e.message, Type: errorType(e.status), Code: e.status}})
}

// errorType is vLLM's spelling of a status: 404 is NotFoundError.
func errorType(status int) string {
	name := strings.ReplaceAll(http.StatusText(status), " ", "")
	return strings.TrimSuffix(name, "Error") + "Error"
}

// writeJSON answers with a value that always has a JSON form. A failed write
// is a client that left; nobody is there to tell.
func writeJSON(rw http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic("simworker: answer without JSON form: " + err.Error())
	}
	setWriteDeadline(http.NewResponseController(rw), time.Now().Add(writeTimeout))
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_, _ = rw.Write(body)
}
