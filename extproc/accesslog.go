package extproc

import (
	"errors"
	"io"
	"strconv"
	"strings"

	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"

	"mooring/affinity"
)

// maxEntries bounds the entries of one message that are looked at. Envoy flushes
// long before, at 16 KiB by default.
const maxEntries = 16384

// maxRequestID bounds a request id that is used to join.
const maxRequestID = 256

// accessLog serves Envoy's gRPC access log: every entry ends a lease.
type accessLog struct {
	logv3.UnimplementedAccessLogServiceServer
	*Server
}

// StreamAccessLogs reads entries until Envoy ends the stream or the server drains.
func (a accessLog) StreamAccessLogs(stream logv3.AccessLogService_StreamAccessLogsServer) error {
	a.reports.opened()
	a.metrics.logStreams.Inc()
	defer func() {
		a.metrics.logStreams.Dec()
		a.reports.closed()
		a.nudge()
	}()
	failed := make(chan error, 1)
	go func() { failed <- a.readEntries(stream) }()
	select {
	case err := <-failed:
		if errors.Is(err, io.EOF) || stream.Context().Err() != nil {
			return nil // Envoy is done with the stream, however it says so
		}
		return err
	case <-a.closing:
		return stream.SendAndClose(&logv3.StreamAccessLogsResponse{})
	}
}

func (a accessLog) readEntries(stream logv3.AccessLogService_StreamAccessLogsServer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = a.panicked("access_log", p)
		}
	}()
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		entries := m.GetHttpLogs().GetLogEntry()
		if excess := len(entries) - maxEntries; excess > 0 {
			a.metrics.entries.WithLabelValues(entryExcess).Add(float64(excess))
			entries = entries[:maxEntries]
		}
		for _, e := range entries {
			a.metrics.entries.WithLabelValues(a.take(e)).Inc()
		}
		a.nudge()
	}
}

// take ends the lease that an entry is about and says what became of the entry.
func (a accessLog) take(entry *logdatav3.HTTPAccessLogEntry) string {
	c := entry.GetCommonProperties()
	if !isEnd(c) {
		return entryNoEnd
	}
	outcome := outcomeOf(c)
	fields := c.GetMetadata().GetFilterMetadata()[namespaceMooring].GetFields()
	if refusedHere(entry) {
		return entryForeign
	}
	if fields == nil {
		e, ok := a.ledger.endRequest(keyOfEntry(entry), outcome, servedBy(c))
		if !ok {
			return entryForeign
		}
		a.compare(e, outcome, servedBy(c), connectFailed(c))
		return entryJoined
	}
	replica, err := strconv.ParseUint(fields[keyReplica].GetStringValue(), 10, 64)
	if err != nil {
		return entryMalformed
	}
	id, err := strconv.ParseUint(fields[keyLease].GetStringValue(), 10, 64)
	if err != nil {
		return entryMalformed
	}
	if replica != a.cfg.ReplicaID {
		return a.passOn(RemoteEnd{Replica: replica, Lease: id, Outcome: outcome, Served: servedBy(c), ConnectFailed: connectFailed(c)})
	}
	e, ok := a.ledger.endServed(id, outcome, servedBy(c), byAccessLog)
	if !ok {
		return entryUnknown
	}
	a.compare(e, outcome, servedBy(c), connectFailed(c))
	return entryEnded
}

// isEnd reports whether an entry is about the end of a client's request: Envoy
// can also write entries in between, and one for each attempt upstream.
func isEnd(c *logdatav3.AccessLogCommon) bool {
	kind := c.GetAccessLogType()
	return kind == logdatav3.AccessLogType_NotSet || kind == logdatav3.AccessLogType_DownstreamEnd
}

// refusedHere reports whether the request ended by an immediate response of ours.
// It never had a lease, so nobody will ask for its end.
func refusedHere(entry *logdatav3.HTTPAccessLogEntry) bool {
	return strings.HasPrefix(entry.GetResponse().GetResponseCodeDetails(), detailsPrefix)
}

func keyOfEntry(entry *logdatav3.HTTPAccessLogEntry) joinKey {
	id, start := entry.GetRequest().GetRequestId(), entry.GetCommonProperties().GetStartTime()
	if len(id) > maxRequestID || start == nil {
		return joinKey{}
	}
	return joinKey{id: id, start: start.AsTime().UnixNano()}
}

// compare looks at what became of a pick: whether it was obeyed, and whether its
// worker could be connected to.
func (s *Server) compare(e *lease, outcome affinity.Outcome, served string, failed bool) {
	if served != "" && served != e.route.Address {
		s.metrics.mismatches.Inc()
		s.cfg.Logger.Debug("served elsewhere than picked", "worker", e.route.Target.String())
	}
	if outcome != affinity.NeverSent || !failed {
		return
	}
	s.metrics.connectFailures.Inc()
	if s.cfg.ConnectFailed == nil {
		return
	}
	if served == "" {
		served = e.route.Address
	}
	s.cfg.ConnectFailed(served)
}
