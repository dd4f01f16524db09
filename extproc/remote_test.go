package extproc

import (
	"strconv"
	"sync/atomic"
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mooring/affinity"
)

// Two replicas, and an access log that reaches the one that did not pick.
func TestEntryThatReachesAnotherReplica(t *testing.T) {
	var failed []string
	picker := serve(t, func(c *Config) { c.ConnectFailed = func(address string) { failed = append(failed, address) } })
	gone := true
	other := serve(t, func(c *Config) {
		c.ReplicaID = 78
		c.Elsewhere = func(e RemoteEnd) bool {
			if !gone {
				picker.server.EndFromElsewhere(e)
			}
			return !gone
		}
	})
	replica, number, address := picker.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s"))
	reporter := other.report()
	e := entry(replica, number, address)
	reporter.send(e)
	reporter.close()
	if n := picker.server.ledger.len(); n != 1 || other.entries(entryOtherReplica) != 1 {
		t.Fatalf("%d ends awaited after an end that could not be passed on, want 1", n)
	}
	gone = false
	reporter = other.report()
	reporter.send(e, e)
	reporter.close()
	picker.clean()
	if other.entries(entryPassedOn) != 2 || picker.ends(affinity.Completed, byReplica) != 1 {
		t.Errorf("passed on %v, ended %v; want 2 and 1: the second says nothing new",
			other.entries(entryPassedOn), picker.ends(affinity.Completed, byReplica))
	}
	_, number, address = picker.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s"))
	lease, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	picker.server.EndFromElsewhere(RemoteEnd{Replica: 79, Lease: lease}) // not ours
	picker.server.EndFromElsewhere(RemoteEnd{Replica: 77, Lease: lease, Outcome: affinity.NeverSent, ConnectFailed: true})
	picker.clean()
	if len(failed) != 1 || failed[0] != address {
		t.Errorf("connect failures of %v, want %s", failed, address)
	}
}

func TestWhoWasAsleepPicksNothing(t *testing.T) {
	var awake atomic.Bool
	s := serve(t, func(c *Config) { c.Awake = awake.Load })
	stream := s.process(t.Context())
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("asleep: a stream got %v, want unavailable", err)
	}
	awake.Store(true)
	slept := s.process(t.Context()) // it falls asleep while the body comes
	sendAll(t, slept, firstMessage(filterv3.ProcessingMode_BUFFERED, false, "x-routing-group=two"))
	must[*extprocv3.ProcessingResponse](t)(slept.Recv()) // the headers may go on
	awake.Store(false)
	sendAll(t, slept, requestBodyMessage([]byte(`{"model":"a"}`), true))
	if answer := must[*extprocv3.ProcessingResponse](t)(slept.Recv()); answer.GetImmediateResponse().GetStatus().GetCode() != 503 {
		t.Errorf("fell asleep before the pick: %v, want a 503", answer)
	}
	awake.Store(true)
	if _, lease, _ := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true)); lease == "" {
		t.Error("awake: no pick")
	}
}
