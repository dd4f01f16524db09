package extproc

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"mooring/affinity"
)

func timestamp(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }

func TestOutcomeOfEntry(t *testing.T) {
	at := &corev3.Address{}
	sent := durationpb.New(time.Millisecond)
	tests := []struct {
		name   string
		common *logdatav3.AccessLogCommon
		want   affinity.Outcome
	}{
		{"a response in full", &logdatav3.AccessLogCommon{UpstreamRemoteAddress: at, TimeToFirstUpstreamTxByte: sent}, affinity.Completed},
		{"timings not filled in", &logdatav3.AccessLogCommon{UpstreamRemoteAddress: at}, affinity.Completed},
		{"no worker at all", &logdatav3.AccessLogCommon{ResponseFlags: &logdatav3.ResponseFlags{NoHealthyUpstream: true}}, affinity.NeverSent},
		{"connection refused", &logdatav3.AccessLogCommon{UpstreamRemoteAddress: at, ResponseFlags: &logdatav3.ResponseFlags{UpstreamConnectionFailure: true, UpstreamRetryLimitExceeded: true}}, affinity.NeverSent},
		{"breaker open", &logdatav3.AccessLogCommon{UpstreamRemoteAddress: at, ResponseFlags: &logdatav3.ResponseFlags{UpstreamOverflow: true}}, affinity.NeverSent},
		{"a retry failed to connect after one was sent", &logdatav3.AccessLogCommon{UpstreamRemoteAddress: at, TimeToFirstUpstreamTxByte: sent, ResponseFlags: &logdatav3.ResponseFlags{UpstreamConnectionFailure: true}}, affinity.UpstreamFailed},
		{"client left before the worker had it", &logdatav3.AccessLogCommon{ResponseFlags: &logdatav3.ResponseFlags{DownstreamConnectionTermination: true}}, affinity.NeverSent},
		{"client left", &logdatav3.AccessLogCommon{UpstreamRemoteAddress: at, TimeToFirstUpstreamTxByte: sent, ResponseFlags: &logdatav3.ResponseFlags{DownstreamConnectionTermination: true}}, affinity.ClientAborted},
		{"client reset", &logdatav3.AccessLogCommon{UpstreamRemoteAddress: at, TimeToFirstUpstreamTxByte: sent, ResponseFlags: &logdatav3.ResponseFlags{DownstreamRemoteReset: true}}, affinity.ClientAborted},
		{"worker died", &logdatav3.AccessLogCommon{UpstreamRemoteAddress: at, TimeToFirstUpstreamTxByte: sent, ResponseFlags: &logdatav3.ResponseFlags{UpstreamConnectionTermination: true}}, affinity.UpstreamFailed},
		{"worker reset", &logdatav3.AccessLogCommon{UpstreamRemoteAddress: at, TimeToFirstUpstreamTxByte: sent, ResponseFlags: &logdatav3.ResponseFlags{UpstreamRemoteReset: true}}, affinity.UpstreamFailed},
		{"worker too slow", &logdatav3.AccessLogCommon{UpstreamRemoteAddress: at, TimeToFirstUpstreamTxByte: sent, ResponseFlags: &logdatav3.ResponseFlags{UpstreamRequestTimeout: true}}, affinity.UpstreamFailed},
		{"nothing said", nil, affinity.NeverSent},
	}
	for _, tt := range tests {
		if got := outcomeOf(tt.common); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func (s *served) entries(disposition string) float64 {
	return value(s.t, s.server.metrics.entries.WithLabelValues(disposition))
}

func (s *served) ends(o affinity.Outcome, by string) float64 {
	return value(s.t, s.server.metrics.ends.WithLabelValues(o.String(), by))
}

func TestEntryEndsItsLease(t *testing.T) {
	s := serve(t, nil)
	reporter := s.report()
	replica, lease, address := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s"))
	if s.load() != 1 || s.leases() != 1 || s.server.ledger.len() != 1 {
		t.Fatalf("load %d, leases %d, ledger %d, want 1 each", s.load(), s.leases(), s.server.ledger.len())
	}
	if replica != "77" {
		t.Errorf("replica %q", replica)
	}
	e := entry(replica, lease, address)
	reporter.send(e, e)
	reporter.close()
	s.clean()
	if s.entries(entryEnded) != 1 || s.entries(entryUnknown) != 1 || s.ends(affinity.Completed, byAccessLog) != 1 {
		t.Error("want one end, and the second report of it known as such")
	}
	if n := value(t, s.server.metrics.mismatches); n != 0 {
		t.Errorf("%v mismatches", n)
	}
}

func TestEntriesThatEndNothing(t *testing.T) {
	s := serve(t, nil)
	_, lease, address := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s"))
	periodic := entry("77", lease, address)
	periodic.CommonProperties.AccessLogType = logdatav3.AccessLogType_DownstreamPeriodic
	upstream := entry("77", lease, address)
	upstream.CommonProperties.AccessLogType = logdatav3.AccessLogType_UpstreamEnd
	reporter := s.report()
	reporter.send(entry("78", lease, address), entry("77", "5", address), entry("77", "x", address), entry("", lease, address),
		periodic, upstream, entry("", "", address), nil)
	reporter.close()
	if n := s.server.ledger.len(); n != 1 {
		t.Errorf("%d ends awaited, want 1", n)
	}
	for disposition, want := range map[string]float64{entryOtherReplica: 1, entryUnknown: 1, entryMalformed: 2, entryNoEnd: 2, entryForeign: 2} {
		if got := s.entries(disposition); got != want {
			t.Errorf("%s: %v, want %v", disposition, got, want)
		}
	}
}

func TestEntriesOverTheLimitOfAMessage(t *testing.T) {
	s := serve(t, nil)
	reporter := s.report()
	reporter.send(slices.Repeat([]*logdatav3.HTTPAccessLogEntry{{}}, maxEntries+3)...)
	reporter.close()
	if got := s.entries(entryExcess); got != 3 {
		t.Errorf("%v in excess, want 3", got)
	}
}

func TestServedElsewhereIsCounted(t *testing.T) {
	s := serve(t, nil)
	reporter := s.report()
	replica, lease, _ := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true))
	reporter.send(entry(replica, lease, "10.9.9.9:1"))
	replica, lease, address := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true))
	// What the load balancer says it chose comes before the connection's address.
	e := entry(replica, lease, address)
	e.CommonProperties.Metadata.FilterMetadata[namespaceLB] = &structpb.Struct{Fields: map[string]*structpb.Value{headerServed: structpb.NewStringValue("10.9.9.9:2")}}
	reporter.send(e)
	reporter.close()
	if n := value(t, s.server.metrics.mismatches); n != 2 {
		t.Errorf("%v mismatches, want 2", n)
	}
}

func TestAddressIsWrittenLikeADestination(t *testing.T) {
	a := &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "fd00::1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80}}}}
	if got := addressOf(a); got != "[fd00::1]:80" {
		t.Errorf("got %s", got)
	}
}

func TestConnectFailureIsTold(t *testing.T) {
	var mu sync.Mutex
	var told []string
	s := serve(t, func(c *Config) {
		c.ConnectFailed = func(address string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, address)
		}
	})
	reporter := s.report()
	replica, lease, address := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s"))
	e := entry(replica, lease, address)
	e.CommonProperties.ResponseFlags = &logdatav3.ResponseFlags{UpstreamConnectionFailure: true}
	replica, lease, second := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true))
	nameless := entry(replica, lease, "")
	nameless.CommonProperties.UpstreamRemoteAddress = nil
	nameless.CommonProperties.ResponseFlags = &logdatav3.ResponseFlags{UpstreamConnectionFailure: true}
	reporter.send(e, nameless)
	reporter.close()
	s.clean()
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(told, []string{address, second}) {
		t.Errorf("told of %v, want %v and %v", told, address, second)
	}
	// The session's first request never reached its worker: it is not bound.
	if entries, _ := s.sessions.List(affinity.Filter{}, "", 10); len(entries) != 0 {
		t.Errorf("sessions %v", entries)
	}
}

// An entry without our metadata ends the lease of the same HTTP request, but not
// that of another one with the same id.
func TestEntryWithoutMetadataIsJoined(t *testing.T) {
	s := serve(t, nil)
	start := time.Unix(100, 5)
	for n := range 2 {
		s.pickOf(identified(firstMessage(filterv3.ProcessingMode_NONE, true), "id", start.Add(time.Duration(n))))
	}
	// An internal redirect asks twice for one request.
	s.pickOf(identified(firstMessage(filterv3.ProcessingMode_NONE, true), "id", start))
	e := entry("", "", "")
	e.CommonProperties.StartTime = timestamp(start)
	e.CommonProperties.UpstreamRemoteAddress = nil
	e.Request = &logdatav3.HTTPRequestProperties{RequestId: "id"}
	reporter := s.report()
	reporter.send(e)
	reporter.close()
	if n := s.server.ledger.len(); n != 1 {
		t.Errorf("%d ends awaited, want that of the other request", n)
	}
	if s.entries(entryJoined) != 1 || s.ends(affinity.NeverSent, byJoin) != 2 {
		t.Error("want one entry that ended two leases as never sent")
	}
}

// The entry of a client that left can be here before its pick is made.
func TestEntryOvertakesItsPick(t *testing.T) {
	s := serve(t, nil)
	start := time.Unix(100, 5)
	e := entry("", "", "")
	e.CommonProperties.StartTime = timestamp(start)
	e.CommonProperties.UpstreamRemoteAddress = nil
	e.Request = &logdatav3.HTTPRequestProperties{RequestId: "id"}
	refused := entry("", "", "")
	refused.CommonProperties.StartTime = timestamp(start.Add(1))
	refused.Request = &logdatav3.HTTPRequestProperties{RequestId: "id"}
	refused.Response = &logdatav3.HTTPResponseProperties{ResponseCodeDetails: "mooring_no_worker"}
	reporter := s.report()
	reporter.send(e, refused)
	reporter.close()
	stream := s.process(t.Context())
	sendAll(t, stream, identified(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s"), "id", start))
	if _, err := stream.Recv(); err == nil {
		t.Error("the pick was answered")
	}
	s.idle()
	s.clean()
	if got := s.ends(affinity.NeverSent, byOvertaking); got != 1 {
		t.Errorf("%v ends by overtaking, want 1", got)
	}
	if _, known := s.server.ledger.mu.recent.take(joinKey{"id", start.Add(1).UnixNano()}); known {
		t.Error("the end of a request that we refused is remembered")
	}
}

func TestRecentEndsAreBounded(t *testing.T) {
	r := newRecentEnds()
	for round := range 3 {
		for n := range maxRecentEnds {
			r.put(joinKey{fmt.Sprint(round), int64(n + 1)}, affinity.Completed)
			if n%3 == 0 {
				r.take(joinKey{fmt.Sprint(round), int64(n + 1)})
			}
		}
	}
	if len(r.ends) > maxRecentEnds || len(r.ring) != maxRecentEnds {
		t.Errorf("%d ends, ring of %d", len(r.ends), len(r.ring))
	}
	if _, ok := r.take(joinKey{"0", 2}); ok {
		t.Error("the oldest is still there")
	}
	if _, ok := r.take(joinKey{"2", 2}); !ok {
		t.Error("a new one is not")
	}
}

func TestLedgerIsBounded(t *testing.T) {
	s := serve(t, func(c *Config) { c.MaxLeases = 2 })
	for range 3 {
		s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s"))
	}
	if s.server.ledger.len() != 2 || s.load() != 2 || s.ends(affinity.Completed, byEviction) != 1 {
		t.Errorf("ledger %d, load %d, evicted %v; want 2, 2, 1", s.server.ledger.len(), s.load(), s.ends(affinity.Completed, byEviction))
	}
}

func TestUnreportedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		go r.server.Run(t.Context())
		pick := func() {
			p := r.open()
			p.in <- firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s")
			synctest.Wait()
			p.reset()
			if err := <-p.result; err != nil {
				t.Fatal(err)
			}
		}
		pick()
		time.Sleep(silentAfter - time.Second)
		if w := r.server.Warnings(); len(w) != 0 {
			t.Errorf("too early: %v", w)
		}
		time.Sleep(2 * time.Second)
		if w := r.server.Warnings(); len(w) != 1 {
			t.Errorf("warnings %v, want one", w)
		}
		pick()
		if n := value(t, r.server.metrics.unreported); n != 1 {
			t.Errorf("%v unreported picks, want the second one", n)
		}
		time.Sleep(unloadAfter - 9*time.Second)
		if r.load() != 1 || r.leases() != 2 {
			t.Errorf("load %d, leases %d; want the first unloaded, both held", r.load(), r.leases())
		}
		// A stream appears: whoever comes now is reported.
		r.server.reports.opened()
		if w := r.server.Warnings(); len(w) != 0 {
			t.Errorf("still: %v", w)
		}
		time.Sleep(r.server.cfg.MaxRequestTime)
		r.clean()
		if n := value(t, r.server.metrics.ends.WithLabelValues("completed", byExpiry)); n != 2 {
			t.Errorf("%v ends by expiry, want 2", n)
		}
	})
}

func responseFlagsOfConnectFailure() *logdatav3.ResponseFlags {
	return &logdatav3.ResponseFlags{UpstreamConnectionFailure: true}
}
