package extproc

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func (s *served) health(service string) string {
	s.t.Helper()
	answer, err := healthv1.NewHealthClient(s.conn).Check(s.t.Context(), &healthv1.HealthCheckRequest{Service: service})
	if err != nil {
		return status.Code(err).String()
	}
	return answer.GetStatus().String()
}

func TestHealthFollowsReadiness(t *testing.T) {
	s := serve(t, nil)
	check := func(when, want string) {
		t.Helper()
		for _, name := range readinessServices() {
			if got := s.health(name); got != want {
				t.Errorf("%s: service %q is %s, want %s", when, name, got, want)
			}
		}
		if got := s.health("liveness"); got != "SERVING" {
			t.Errorf("%s: liveness is %s", when, got)
		}
		if got := s.health("nonsense"); got != "NotFound" {
			t.Errorf("%s: an unknown service is %s", when, got)
		}
	}
	check("ready", "SERVING")
	s.server.SetReady(false)
	check("not ready", "NOT_SERVING")
	stream := s.process(t.Context())
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("not ready: a stream got %v", err)
	}
	s.server.SetReady(true)
	s.server.Drain(t.Context())
	s.server.SetReady(true) // too late
	check("draining", "NOT_SERVING")
}

// The whole of a shutdown: streams that are done end, a request that comes late
// is still served, what is awaited is waited for, and GracefulStop returns.
func TestDrain(t *testing.T) {
	s := serve(t, nil)
	reporter := s.report()
	done := s.process(t.Context())
	sendAll(t, done, firstMessage(filterv3.ProcessingMode_NONE, true))
	answer := must[*extprocv3.ProcessingResponse](t)(done.Recv())
	lease := answer.GetDynamicMetadata().GetFields()[namespaceMooring].GetStructValue().GetFields()[keyLease].GetStringValue()
	uploading := s.process(t.Context())
	sendAll(t, uploading, firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, "x-routing-group=two"))

	drained := make(chan struct{})
	go func() { s.server.Drain(t.Context()); close(drained) }()
	if _, err := done.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream that is done ended with %v", err)
	}
	sendAll(t, uploading, requestBodyMessage([]byte(`{"model":"a"}`), true))
	second := must[*extprocv3.ProcessingResponse](t)(uploading.Recv()).GetDynamicMetadata().GetFields()[namespaceMooring].GetStructValue().GetFields()[keyLease].GetStringValue()
	if _, err := uploading.Recv(); err != nil {
		t.Errorf("the body did not come back: %v", err)
	}
	s.idle()
	if _, _, address := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true)); address == "" {
		t.Error("a late request was not served")
	}
	reporter.send(entry("77", lease, ""), entry("77", second, ""))
	select {
	case <-drained:
		t.Error("drained before the last end was reported")
	default:
	}
	reporter.send(entry("77", "1002", ""))
	<-drained
	if err := reporter.stream.RecvMsg(&logv3.StreamAccessLogsResponse{}); err != nil {
		t.Errorf("the access log stream ended with %v", err)
	}
	s.grpc.GracefulStop()
	s.clean()
}

// Nobody waits for reports that cannot come, nor longer than ctx.
func TestDrainWaitsForNothingInVain(t *testing.T) {
	s := serve(t, nil)
	s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true))
	s.server.Drain(t.Context()) // no access log stream is open

	s = serve(t, nil)
	s.report().send(entry("", "", ""))
	eventually(t, "the access log stream opens", s.server.reports.any)
	s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.server.Drain(ctx)
	s.grpc.GracefulStop()
}

// With ends by the stream, Drain waits for responses; at its end the streams end
// with OK, which Envoy takes without a word.
func TestDrainWithEndsByStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.End = Stream })
		p := r.open()
		first := firstMessage(filterv3.ProcessingMode_NONE, true)
		first.ProtocolConfig.ResponseBodyMode = filterv3.ProcessingMode_STREAMED
		p.ask(first)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		began := time.Now()
		r.server.Drain(ctx)
		if waited := time.Since(began); waited != 30*time.Second {
			t.Errorf("drained after %v", waited)
		}
		if err := <-p.result; err != nil {
			t.Errorf("the stream ended with %v", err)
		}
		r.clean()
	})
}

// A body message over the limit of gRPC is counted as what it is.
func TestMessageOverTheLimit(t *testing.T) {
	s := serve(t, nil)
	stream := s.process(t.Context())
	sendAll(t, stream, firstMessage(filterv3.ProcessingMode_BUFFERED, false, "x-routing-group=two"))
	must[*extprocv3.ProcessingResponse](t)(stream.Recv())
	sendAll(t, stream, requestBodyMessage(make([]byte, 256<<10+messageSlack+1), true))
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("ended with %v", err)
	}
	s.idle()
	if s.oddities(oddMessage) != 1 {
		t.Error("not counted")
	}
	s.clean()
}

func TestConfigIsChecked(t *testing.T) {
	r := newRig(t, nil)
	tests := []struct {
		name   string
		change func(*Config)
	}{
		{"no replica id", func(c *Config) { c.ReplicaID = 0 }},
		{"negative body limit", func(c *Config) { c.MaxBodyBytes = -1 }},
		{"huge body limit", func(c *Config) { c.MaxBodyBytes = 1 << 40 }},
		{"no room for one body", func(c *Config) { c.MaxBufferedBytes = 1 }},
		{"negative deadline", func(c *Config) { c.Deadline = -1 }},
		{"negative leases", func(c *Config) { c.MaxLeases = -1 }},
		{"unknown end", func(c *Config) { c.End = Stream + 1 }},
		{"metrics registered twice", func(c *Config) { c.Registerer = r.registry }},
	}
	for _, tt := range tests {
		cfg := Config{ReplicaID: 1}
		tt.change(&cfg)
		if _, err := New(r.server.router, cfg); err == nil {
			t.Errorf("%s: accepted", tt.name)
		}
	}
	if _, err := New(nil, Config{ReplicaID: 1}); err == nil {
		t.Error("no router: accepted")
	}
	s, err := New(r.server.router, Config{ReplicaID: 1})
	if err != nil || s.cfg.FirstLease == 0 {
		t.Errorf("the smallest configuration: %v, first lease %d", err, s.cfg.FirstLease)
	}
}

func TestPanicInTheAccessLogIsAStatus(t *testing.T) {
	s := serve(t, func(c *Config) { c.ConnectFailed = func(string) { panic("on purpose") } })
	reporter := s.report()
	replica, lease, address := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true))
	e := entry(replica, lease, address)
	e.CommonProperties.ResponseFlags = responseFlagsOfConnectFailure()
	reporter.send(e)
	if err := reporter.stream.RecvMsg(&logv3.StreamAccessLogsResponse{}); status.Code(err) != codes.Internal {
		t.Errorf("ended with %v", err)
	}
	s.clean()
}
