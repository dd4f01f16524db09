package replication

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/zmqsock"
)

// Whoever comes and goes all the time is told of once a second; what is so in the
// end is told in any case, and what follows later is told at once.
func TestFlappingPeerFillsNoLog(t *testing.T) {
	for _, atTheEnd := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			z := &ZMQ{cfg: ZMQConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))}, tally: newMeshTally(), connected: make(chan struct{}, 1)}
			l := &link{endpoint: "tcp://peer:1"}
			lines := func(text string) int {
				synctest.Wait()
				return strings.Count(log.String(), text)
			}
			for range 10 * 10 {
				z.noted(l, zmqsock.Event{Connected: !atTheEnd, Reason: zmqsock.PeerClosed})
				time.Sleep(50 * time.Millisecond)
				z.noted(l, zmqsock.Event{Connected: atTheEnd, Reason: zmqsock.PeerClosed})
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(time.Second)
			came, went := lines("a peer is connected"), lines("a peer is not connected")
			if came < 5 || came > 12 || went < 5 || went > 12 {
				t.Errorf("in 10 s the log says %d times that the peer came, and %d times that it went; want one pair a second:\n%s", came, went, &log)
			}
			if ends := strings.HasSuffix(log.String(), "is connected\" peer=tcp://peer:1\n"); ends != atTheEnd {
				t.Errorf("the peer is connected: %v; the log ends with\n%s", atTheEnd, log.String()[log.Len()-300:])
			}
			time.Sleep(time.Minute)
			log.Reset()
			z.noted(l, zmqsock.Event{Connected: !atTheEnd, Reason: zmqsock.PeerClosed})
			z.noted(l, zmqsock.Event{Connected: atTheEnd, Reason: zmqsock.PeerClosed})
			if n := lines("a peer is"); n != 2 {
				t.Errorf("a minute later the log has %d lines of a peer that came and went, want 2 at once", n)
			}
			z.noted(l, zmqsock.Event{Connected: !atTheEnd, Reason: zmqsock.PeerClosed})
			l.tellNoMore()
			time.Sleep(time.Minute)
			if n := lines("a peer is"); n != 2 {
				t.Error("the log tells of a link that has ended")
			}
		})
	}
}
