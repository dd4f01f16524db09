package reconcile

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/tinylib/msgp/msgp"

	"mooring/internal/fleet"
	"mooring/internal/zmqsock"
	"mooring/kvstate"
)

func workerAt(id fleet.WorkerID, address string) fleet.Worker {
	w := testWorker(id)
	w.Address = address
	return w
}

func TestWhereabouts(t *testing.T) {
	gone := workerAt(6, "10.0.0.9:8000")
	gone.State = fleet.Vanished
	view := fleet.NewView([]fleet.Worker{
		workerAt(1, "10.0.0.5:8000"), workerAt(2, "10.0.0.5:8001"), workerAt(3, "[fd00::5]:8000"), workerAt(4, ""), workerAt(5, "10.0.0.55:8000"), gone,
	})
	for id, want := range map[fleet.WorkerID]string{1: "10.0.0.5:8000", 3: "[fd00::5]:8000", 4: "invalid AddrPort", 9: "invalid AddrPort"} {
		if got := addressOf(view, id).String(); got != want {
			t.Errorf("worker %d is at %s, want %s", id, got, want)
		}
	}
	for _, one := range []struct {
		id   fleet.WorkerID
		at   string
		want bool
	}{
		{1, "10.0.0.5:8000", false}, {1, "10.0.0.5:8001", true}, {1, "10.0.0.5:8002", false}, {1, "10.0.0.5:0", true},
		{3, "[fd00::5]:8000", false}, {3, "[fd00::5]:0", false}, {1, "[fd00::5]:0", true}, {4, "[fd00::5]:8000", true},
		{5, "10.0.0.55:0", false}, {1, "10.0.0.50:0", false}, {1, "10.0.0.9:8000", false}, {1, "10.0.0.9:0", false},
	} {
		if got := neighbourOf(view, one.id, netip.MustParseAddrPort(one.at)); got != one.want {
			t.Errorf("worker %d has a neighbour at %s: %t", one.id, one.at, got)
		}
	}
}

// storedBatch is [0, [["BlockStored", [1], null, [1, 2], 2]]].
func storedBatch() []byte {
	b := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 2), 0)
	b = msgp.AppendArrayHeader(msgp.AppendArrayHeader(b, 1), 5)
	b = msgp.AppendString(b, "BlockStored")
	b = msgp.AppendInt(msgp.AppendArrayHeader(b, 1), 1)
	b = msgp.AppendNil(b)
	b = msgp.AppendInt(msgp.AppendInt(msgp.AppendArrayHeader(b, 2), 1), 2)
	return msgp.AppendInt(b, 2)
}

// An engine whose topic names another worker is believed nothing, and the owner says
// whom the topic names (B85).
func TestAnotherWorkersTopic(t *testing.T) {
	pub, err := zmqsock.Listen(t.Context(), zmqsock.PublisherConfig{Endpoint: "tcp://127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	mine := workerAt(1, "10.0.0.5:8000")
	mine.KVEvents = pub.Endpoint()
	r := run(t, mine, workerAt(2, "10.0.0.6:8000"))
	seq := uint64(0)
	tellUntil := func(topic, what string, ok func() bool) { // what comes before the subscription is lost
		t.Helper()
		r.soon(what, func() bool {
			if err := pub.Publish([][]byte{[]byte(topic), binary.BigEndian.AppendUint64(nil, seq), storedBatch()}); err != nil {
				t.Fatal(err)
			}
			seq++
			return ok()
		})
	}
	problem := func() string {
		for _, o := range r.Owners() {
			return o.Problem
		}
		return ""
	}
	tellUntil("kv@10.0.0.6:8000@m", "a problem", func() bool {
		return strings.Contains(problem(), "the topic names 10.0.0.6:8000, the worker is at 10.0.0.5:8000")
	})
	if p := problem(); !strings.HasPrefix(p, "worker w1, rank 0, events at "+pub.Endpoint()) {
		t.Errorf("problem: %s", p)
	}
	if n := publishersUnknown(t, r); n < 1 || n > float64(seq) {
		t.Errorf("%v of %d dropped as of an unknown publisher", n, seq)
	}
	one := kvstate.Worker{WorkerID: 1}
	if ix, _ := r.set.Partition(testPartition); ix.Len() != 0 {
		t.Errorf("%d blocks", ix.Len())
	}
	tellUntil("kv@10.0.0.5:8000@m", "no problem", func() bool { return problem() == "" })
	r.holds(engineBlocks(one), 1)
}

func publishersUnknown(t *testing.T, r *running) float64 {
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []*dto.Metric
	for _, f := range families {
		if f.GetName() == "mooring_kv_feed_dropped_total" {
			all = f.GetMetric()
		}
	}
	for _, m := range all {
		if m.GetLabel()[0].GetValue() == "publisher_unknown" {
			return m.GetCounter().GetValue()
		}
	}
	t.Fatal("no such metric")
	return 0
}
