package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"

	"mooring/affinity"
)

// refusal is an answer other than what was asked for. On the wire:
//
//	{"error":{"type":"not_found","message":"this session is not bound"}}
type refusal struct {
	status  int
	kind    string // of a closed list: it is also a metric's label
	message string
}

func (e *refusal) Error() string { return e.message }

func notFound(format string, args ...any) *refusal {
	return &refusal{http.StatusNotFound, "not_found", fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, "invalid_request", fmt.Sprintf(format, args...)}
}

func forbidden(format string, args ...any) *refusal {
	return &refusal{http.StatusForbidden, "forbidden", fmt.Sprintf(format, args...)}
}

func unknownTarget(format string, args ...any) *refusal {
	return &refusal{http.StatusUnprocessableEntity, "unknown_target", fmt.Sprintf(format, args...)}
}

// refusalOf says how an error is answered. It is the one place that does.
func refusalOf(err error) *refusal {
	var (
		known  *refusal
		target *affinity.UnknownTargetError
		large  *http.MaxBytesError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &target):
		return unknownTarget("%v", target)
	case errors.As(err, &large):
		return &refusal{http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body is over %d bytes", large.Limit)}
	case errors.Is(err, affinity.ErrInvalidSession):
		return invalid("%v", err)
	case errors.Is(err, affinity.ErrWorkerGone), errors.Is(err, affinity.ErrConflict), errors.Is(err, affinity.ErrSequenceExhausted):
		return &refusal{http.StatusConflict, "conflict", err.Error()}
	case errors.Is(err, affinity.ErrFull):
		return &refusal{http.StatusServiceUnavailable, "table_full", err.Error()}
	default:
		return &refusal{http.StatusInternalServerError, "internal", err.Error()}
	}
}

// refuse answers err.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := refusalOf(err)
	s.refused.WithLabelValues(e.kind).Inc()
	s.cfg.Logger.Debug("admin_refused", "method", r.Method, "type", e.kind, "status", e.status)
	type detail struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	if err := answer(w, e.status, struct {
		Error detail `json:"error"`
	}{detail{e.kind, e.message}}); err != nil {
		http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
	}
}

// answer writes value as JSON. It writes all or, with an error, nothing.
func answer(w http.ResponseWriter, status int, value any) error {
	// A model's name comes from the configuration and a message may quote what
	// was asked: neither needs to be valid UTF-8.
	body, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	body = append(body, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // an error is the client's: it has gone
	return nil
}

func newRefused(registerer prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_admin_refused_total",
		Help: "Admin requests that were refused, by the type of the error.",
	}, []string{"type"})
	if registerer != nil {
		registerer.MustRegister(c)
	}
	return c
}
