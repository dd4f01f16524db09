package extproc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"mooring/routing"
)

// attributesKey is under which Envoy sends the request's attributes.
const attributesKey = "envoy.filters.http.ext_proc"

// identify reads from the first message what names the HTTP request in the
// access log.
func (x *exchange) identify(m *extprocv3.ProcessingRequest) {
	if x.machine.phase != phaseStart {
		return
	}
	// Envoy writes the time like this: 2026-11-29T15:23:18.123456789+00:00
	attributes := m.GetAttributes()[attributesKey].GetFields()
	if start, err := time.Parse(time.RFC3339Nano, attributes["request.time"].GetStringValue()); err == nil {
		x.key.start = start.UnixNano()
	}
	x.key.id = attributes["request.id"].GetStringValue()
	x.subset = readSubset(m.GetMetadataContext())
	x.startSpan(m)
}

// examine reads the headers.
func (x *exchange) examine() step {
	headers := x.machine.headers
	values := func(name string) []string { return headerValues(headers, name) }
	var err error
	if x.req, err = x.router.ReadHeaders(values); err != nil {
		return x.machine.refuse(refusalOf(err))
	}
	x.restrict()
	if x.key.id == "" {
		x.key.id = x.req.ID
	}
	if len(x.key.id) > maxRequestID {
		x.key.id = ""
	}
	use := x.bodyUse()
	if use != bodyUnused {
		x.encoding = strings.Join(values("content-encoding"), ",")
	}
	return x.machine.examined(use)
}

func (x *exchange) bodyUse() bodyUse {
	switch {
	case x.router.NeedsBody(&x.req):
		return bodyNeeded
	case x.router.WantsBody(&x.req):
		return bodyWanted
	default:
		return bodyUnused
	}
}

// restrict keeps the request within the gateway's subset.
func (x *exchange) restrict() {
	x.req.Restricted, x.req.Subset = x.subset.restricted, x.subset.addresses
	if !x.subset.unreadable {
		return
	}
	x.metrics.oddities.WithLabelValues(oddSubset).Inc()
	if x.complain.due(oddSubset, time.Now()) {
		x.cfg.Logger.Warn("the gateway's subset of endpoints cannot be read; what is unreadable allows nobody", "namespace", namespaceSubset)
	}
}

// pick decides. It gives up as soon as the client has left.
func (x *exchange) pick() step {
	began := time.Now()
	rt, err := x.decide()
	x.line.pick = time.Since(began)
	x.metrics.pick.Observe(x.line.pick.Seconds())
	x.route = rt
	switch {
	case x.ctx.Err() != nil:
		return step{} // nobody is there to be answered
	case err != nil:
		return x.machine.refuse(err)
	}
	if x.lease, x.leased = x.ledger.add(rt, x.key, pickedOver(x.stream.Context())); !x.leased {
		x.leave() // the request is over: its end was reported before its pick
		return step{}
	}
	if x.cfg.End == AccessLog && x.reports.picked(began) {
		x.metrics.unreported.Inc()
	}
	x.count(rt.Reason, http.StatusOK)
	return x.machine.decided(x.answers.pin(rt, x.lease))
}

func (x *exchange) decide() (*routing.Route, *routing.Error) {
	span := x.startPickSpan()
	defer span.End()
	if body, ok := x.machine.body(); ok {
		x.line.body = len(body)
		if err := x.router.ReadBody(&x.req, x.encoding, body); err != nil {
			if x.machine.partial() {
				return nil, cutBody(len(body))
			}
			return nil, refusalOf(err)
		}
	}
	if !x.mayPick() { // it could when the stream began, perhaps minutes ago
		x.metrics.oddities.WithLabelValues(oddNotReady).Inc()
		return nil, &routing.Error{
			Kind: routing.Unavailable, Reason: routing.NoWorker, RetryAfter: time.Second, Message: "the request cannot be routed now",
		}
	}
	ctx, cancel := context.WithTimeout(x.traced, x.cfg.Deadline)
	defer cancel()
	rt, err := x.router.Route(ctx, &x.req)
	if err != nil {
		return nil, refusalOf(err)
	}
	return rt, nil
}

// refusalOf returns err as what it is: package routing returns no other errors.
func refusalOf(err error) *routing.Error {
	var known *routing.Error
	if errors.As(err, &known) {
		return known
	}
	return &routing.Error{Kind: routing.Unavailable, Reason: routing.NoWorker, Message: "the request cannot be routed now", Err: err}
}
