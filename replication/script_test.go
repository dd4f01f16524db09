package replication_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
)

// TestNamedCases replays testdata: one file is one case, one block of it one
// cluster; every line is a command, and what it prints is compared.
func TestNamedCases(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			synctest.Test(t, func(t *testing.T) {
				n, ttl, limit := 2, 600, 0
				for key, to := range map[string]*int{"n": &n, "ttl": &ttl, "max": &limit} {
					if d.HasArg(key) {
						d.ScanArgs(t, key, to)
					}
				}
				var ablate string // with dashes for spaces
				if d.HasArg("ablate") {
					d.ScanArgs(t, "ablate", &ablate)
				}
				s := &scripted{
					cluster: newCluster(t, setup{seed: 1, n: n, ttl: time.Duration(ttl) * time.Second, max: limit, ablate: strings.ReplaceAll(ablate, "-", " ")}),
					leases:  make(map[string]*held), versions: make(map[string]replication.BindingEvent),
				}
				s.sent = s.capture
				for line := range strings.Lines(d.Input) {
					s.command(t, strings.Fields(line), &out)
				}
			})
			return out.String()
		})
	})
}

type scripted struct {
	*cluster
	leases   map[string]*held
	wire     []string // see the command
	versions map[string]replication.BindingEvent
}

func (s *scripted) command(t *testing.T, f []string, out *strings.Builder) {
	num := func(i int) (n uint64) {
		if _, err := fmt.Sscan(f[i], &n); err != nil {
			t.Fatalf("%v: %v", f, err)
		}
		return n
	}
	at := func(i int) *replica { return s.replicas[num(i)] }
	switch f[0] {
	case "open": // open REPLICA SESSION WORKER: acquire, and bind if it must
		l, err := s.open(at(1), f[2], fleet.WorkerID(num(3)))
		if err != nil {
			fmt.Fprintf(out, "open: %v\n", err)
			return
		}
		s.leases[f[1]+f[2]] = l
		target, _ := l.Target()
		fmt.Fprintf(out, "%s %s -> %v\n", f[1], f[2], target)
	case "choose": // choose REPLICA SESSION: take the turn
		l, err := s.acquire(at(1), f[2])
		if err != nil {
			t.Fatal(err)
		}
		s.leases[f[1]+f[2]] = l
	case "bind": // bind REPLICA SESSION WORKER: end the turn
		l := s.leases[f[1]+f[2]]
		err := s.bind(at(1), l, fleet.WorkerID(num(3)))
		target, _ := l.Target()
		fmt.Fprintf(out, "%s %s -> %v %v\n", f[1], f[2], target, cmp.Or(err, fmt.Errorf("ok")))
	case "release":
		s.leases[f[1]+f[2]].Release(affinity.Completed)
	case "unpin":
		at(1).table().Unpin(f[2])
	case "run":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			t.Fatal(err)
		}
		s.run(d)
	case "cut":
		s.net.Cut(int(num(1)), int(num(2)))
	case "heal":
		s.net.Heal()
	case "loss":
		s.net.Loss = float64(num(1)) / 100
	case "down":
		at(1).down = true
	case "up":
		at(1).down = false
	case "restart": // restart REPLICA [WRITER]
		if len(f) > 2 {
			at(1).writer = num(2)
		}
		at(1).down = false
		s.start(at(1))
	case "workers": // workers REPLICA N: what its discovery knows; 0: not even the partition
		at(1).see(int(num(2)))
	case "keep": // keep REPLICA SESSION: note the binding, for plain
		ev, _ := at(1).table().Current(f[2])
		s.versions[f[2]] = plainEvent(f[2], uint64(ev.Target.Worker), ev.Sequence, ev.WriterID)
	case "plain": // plain TOPIC SESSION: a plain peer sends what was kept, to all
		e := s.versions[f[2]]
		s.payload(f[1], replication.AppendEvent(nil, &e))
	case "poison": // poison SESSION SEQUENCE
		e := plainEvent(f[1], 1, num(2), 9)
		s.payload("v2", replication.AppendEvent(nil, &e))
	case "ahead": // ahead SESSION DURATION: a plain peer whose clock is that far ahead binds it
		d, err := time.ParseDuration(f[2])
		if err != nil {
			t.Fatal(err)
		}
		e := plainEvent(f[1], 1, uint64(time.Now().Add(d).UnixNano()), 9)
		s.payload("v2", replication.AppendEvent(nil, &e))
	case "flood": // flood N: N new sessions of a plain peer
		for i := range num(1) {
			e := plainEvent(fmt.Sprint("flood", i), 1, uint64(time.Now().UnixNano()), 9)
			s.payload("v2", replication.AppendEvent(nil, &e))
		}
	case "garbage": // payloads that nobody can decode
		for _, p := range [][]byte{nil, {0xdd, 0xff, 0xff, 0xff, 0xff}, {0xdf, 0xff, 0xff, 0xff, 0xff}, {0xc6, 0xff, 0xff, 0xff, 0xff}, {0xd4}, bytes.Repeat([]byte{0x91}, 100_000), make([]byte, replication.MaxPayload+1)} {
			s.payload("v2", p)
			s.payload("sync", p)
		}
	case "fill": // fill REPLICA PREFIX N WORKER: N sessions, used once
		for i := range num(3) {
			h, err := s.open(at(1), fmt.Sprint(f[2], i), fleet.WorkerID(num(4)))
			if err != nil {
				t.Fatal(err)
			}
			h.Release(affinity.Completed)
		}
	case "targets": // targets REPLICA PREFIX: how many of the sessions are where
		targets := make(map[string]int)
		for _, r := range at(1).records() {
			if strings.HasPrefix(r.Session, f[2]) && r.Kind != affinity.EventUnpinned {
				targets[r.Target.String()]++
			}
		}
		fmt.Fprintf(out, "%s: %v\n", f[1], targets)
	case "skew": // skew REPLICA DURATION: how far its clock is ahead
		d, err := time.ParseDuration(f[2])
		if err != nil {
			t.Fatal(err)
		}
		at(1).skew = d
	case "wire": // wire: who sent which binding since the last such command, made by whom
		slices.Sort(s.wire)
		for _, line := range slices.Compact(s.wire) {
			fmt.Fprintf(out, "  %s\n", line)
		}
		s.wire = nil
	case "peers": // peers REPLICA: what it knows of the others
		for _, p := range at(1).core.Peers() {
			fmt.Fprintf(out, "%s: peer %d differs in %d sessions, has converged %v\n", f[1], p.SenderID, p.Differing, !p.ConvergedSince.IsZero())
		}
	case "max": // max N: for replicas that start later
		s.max = int(num(1))
	case "table": // table REPLICA: all that it holds
		var lines []string
		for _, r := range at(1).records() {
			if r.Kind == affinity.EventUnpinned {
				lines = append(lines, fmt.Sprintf("  %s unpinned\n", r.Session))
			} else {
				lines = append(lines, fmt.Sprintf("  %s %v life %v\n", r.Session, r.Target, r.Life.Round(time.Second)))
			}
		}
		slices.Sort(lines)
		fmt.Fprintf(out, "table %s:\n%s", f[1], strings.Join(lines, ""))
	case "size":
		fmt.Fprintf(out, "size %d\n", len(at(1).records()))
	case "equal":
		fmt.Fprintf(out, "differing %d\n", len(s.differing()))
	case "seen": // seen REPLICA DISPOSITION...
		for _, word := range f[2:] {
			for d, n := range at(1).seen {
				if d.String() == word {
					fmt.Fprintf(out, "%v %d\n", d, n)
				}
			}
		}
	case "ready":
		ready, timedOut := at(1).core.Ready()
		fmt.Fprintf(out, "ready %v, timed out %v\n", ready, timedOut)
	default:
		t.Fatalf("unknown command %v", f)
	}
}

// capture notes the bindings that replicas send.
func (s *scripted) capture(from int, m replication.Message) {
	if e, err := replication.DecodeEvent(m.Payload); err == nil && m.Topic == replication.TopicV2 {
		s.wire = append(s.wire, fmt.Sprintf("%d sends %s -> %d, made by %d", from, e.SessionID, e.WorkerID, e.WriterID))
	}
}

func (s *scripted) payload(topic string, p []byte) {
	name := map[string]string{"v1": replication.TopicV1, "v2": replication.TopicV2, "sync": replication.TopicSync}[topic]
	s.net.Send(time.Now(), -1, len(s.replicas), []replication.Message{{Topic: name, Payload: p}})
}
