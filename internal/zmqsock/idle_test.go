package zmqsock_test

import (
	"testing"
	"time"

	"mooring/internal/zmqsock"
)

// Two subscribers of one publisher that falls silent: only the one whose idle
// topic was heard gives the connection up, each time it is heard anew.
func TestIdleTopicArmsTheTimeout(t *testing.T) {
	p := listen(t, zmqsock.PublisherConfig{})
	const idle = 50 * time.Millisecond
	patient := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint(), IdleTimeout: idle, IdleTopic: "never"})
	armed := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint(), IdleTimeout: idle, IdleTopic: "beacon"})
	join(t, p, patient, "plain")
	for range 3 {
		join(t, p, armed, "plain")
		join(t, p, armed, "beacon")
		until(t, armed.events, "end of the silent connection", func(e zmqsock.Event) bool { return e.Reason == zmqsock.Idle })
	}
	if st := patient.Stats(); st.Connections != 1 || !st.Connected {
		t.Errorf("who heard no beacon was cut off: %+v", st)
	}
}

func TestCheckEndpoint(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		bind, ok bool
	}{
		{"tcp://127.0.0.1:0", true, true}, {"tcp://127.0.0.1:0", false, false}, {"tcp://*:9092", true, true},
		{"tcp://*:9092", false, false}, {"tcp://peer.example:9092", false, true}, {"ipc://x", true, false},
	} {
		if err := zmqsock.CheckEndpoint(c.endpoint, c.bind); (err == nil) != c.ok {
			t.Errorf("%s, bind %v: %v", c.endpoint, c.bind, err)
		}
	}
}
