package replication_test

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"mooring/replication"
)

// lines is a log, line by line.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// However often a peer is dialled in vain, the log says once that it is not there.
func TestPeersThatComeAndGoAreLoggedOnce(t *testing.T) {
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	where := "tcp://" + stranger.Addr().String()
	log := make(lines, 100)
	z, err := replication.NewZMQ(replication.ZMQConfig{Listen: free, Peers: []string{where}, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	want := func(text string) {
		t.Helper()
		select {
		case line := <-log:
			if !strings.Contains(line, text) || !strings.Contains(line, "peer="+where) {
				t.Fatalf("the log says %swant %q of %s", line, text, where)
			}
		case <-time.After(patience):
			t.Fatalf("the log never says %q", text)
		}
	}
	for range 3 { // a stranger takes each call, and hangs up
		c, err := stranger.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	stranger.Close()
	want("level=WARN msg=\"a peer is not connected\"")
	for id := range uint64(2) {
		peer := startNode(t, 2+id, where)
		want("level=INFO msg=\"a peer is connected\"")
		peer.stop()
		want("level=WARN msg=\"a peer is not connected\"")
	}
	z.Close()
	if len(log) > 0 {
		t.Errorf("at the end the log says %s", <-log)
	}
}
