package affinity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"mooring/internal/fleet"
)

// TestTransitions replays testdata/transitions: each command is one step at a
// time that the script says, and prints what it came to, what was published, who
// was woken, and then the whole of every entry.
func TestTransitions(t *testing.T) {
	datadriven.Walk(t, "testdata/transitions", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "table" {
				s = newScript(t, d)
				return s.state()
			}
			s.out.Reset()
			s.run(t, d)
			s.reportEvents()
			s.reportWoken()
			return s.out.String() + s.state()
		})
	})
}

// script drives one table; leases and waits go by the names that it gives them.
type script struct {
	table  *Table
	live   *fleet.Live
	now    instant
	leases map[string]*Lease
	waits  map[string]<-chan struct{}
	events []Event
	out    strings.Builder
}

// newScript makes the table: table [mode=soft] [gone=fail|wait] [max=N]. TTL is
// 10 s, the init timeout 5 s, the writer 7, and the wall clock stands at 1000 ns.
// The fleet is workers 1, 2 and 3 with two ranks each, all active.
func newScript(t *testing.T, d *datadriven.TestData) *script {
	s := &script{leases: make(map[string]*Lease), waits: make(map[string]<-chan struct{})}
	cfg := Config{
		TTL: 10 * time.Second, InitTimeout: 5 * time.Second, WriterID: 7,
		WallNow: func() time.Time { return time.Unix(0, 1000) },
		Publish: func(_ fleet.Partition, e Event) { s.events = append(s.events, e) },
	}
	if d.HasArg("max") {
		d.ScanArgs(t, "max", &cfg.MaxSessions)
	}
	if arg(t, d, "mode") == "soft" {
		cfg.Mode = Soft
	}
	switch arg(t, d, "gone") {
	case "fail":
		cfg.WhenGone = Fail
	case "wait":
		cfg.WhenGone = Wait
	}
	s.table, s.live = newTestTable(t, cfg)
	return s
}

func arg(t *testing.T, d *datadriven.TestData, key string) (value string) {
	if d.HasArg(key) {
		d.ScanArgs(t, key, &value)
	}
	return value
}

// target reads worker or worker:rank; "" is no target.
func target(t *testing.T, text string) fleet.Target {
	if text == "" {
		return fleet.Target{}
	}
	worker, rank, ranked := strings.Cut(text, ":")
	id, err := fleet.ParseWorkerID(worker)
	if err != nil {
		t.Fatal(err)
	}
	if !ranked {
		return fleet.WorkerOnly(id)
	}
	n, err := strconv.ParseUint(rank, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return fleet.OnRank(id, uint32(n))
}

func (s *script) run(t *testing.T, d *datadriven.TestData) {
	session, name := arg(t, d, "s"), arg(t, d, "lease")
	at := target(t, arg(t, d, "at"))
	switch d.Cmd {
	case "advance": // advance by=9s
		by, err := time.ParseDuration(arg(t, d, "by"))
		if err != nil {
			t.Fatal(err)
		}
		s.now += instant(by)
	case "fleet": // fleet states=(active,draining,vanished)
		s.fleet(t, d)
	case "acquire": // acquire s=a lease=r1 [want=1:0]
		s.acquire(session, name, target(t, arg(t, d, "want")))
	case "bind": // bind lease=r1 at=2:1
		fx, err := s.leases[name].bind(s.now, s.table.wallNow(), at)
		s.table.perform(&fx)
		s.answer(err)
	case "check": // check lease=r1 at=2:1
		s.answer(s.leases[name].Check(at))
	case "release": // release lease=r1 [never_sent]
		s.release(name, d.HasArg("never_sent"))
	case "pin": // pin s=a at=1:0
		_, fx, err := s.table.pin(session, at, s.now, s.table.wallNow(), s.table.alive())
		s.table.perform(&fx)
		s.answer(err)
	case "unpin": // unpin s=a
		fx := s.table.unpin(session, s.now, s.table.wallNow())
		s.table.perform(&fx)
		fmt.Fprintf(&s.out, "was bound: %v\n", fx.unpinned > 0)
	case "sweep":
		s.table.sweep(s.now)
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
}

func (s *script) fleet(t *testing.T, d *datadriven.TestData) {
	var states []fleet.State
	for _, cmdArg := range d.CmdArgs {
		for _, name := range cmdArg.Vals {
			i := slices.IndexFunc(fleet.States[:], func(s fleet.State) bool { return s.String() == name })
			if i < 0 {
				t.Fatalf("no state %q", name)
			}
			states = append(states, fleet.States[i])
		}
	}
	s.live.Publish(fleetOf(states...))
}

func (s *script) acquire(session, name string, want fleet.Target) {
	a := s.table.tryAcquire(s.now, session, want)
	switch {
	case a.full:
		s.answer(ErrFull)
	case a.finding == foundBinding:
		got, _ := a.lease.Target()
		fmt.Fprintf(&s.out, "%s is bound to %v\n", name, got)
		s.leases[name] = &a.lease
	case a.finding == foundNothing, a.finding == foundGone:
		fmt.Fprintf(&s.out, "%s has the turn, moved=%v\n", name, a.lease.Moved())
		s.leases[name] = &a.lease
	case a.finding == foundTurn:
		fmt.Fprintf(&s.out, "%s waits up to %v\n", name, timeLeft(a.until, s.now))
		s.waits[name] = a.wake
	case a.finding == refusedGone && s.table.rules.whenGone == Wait:
		fmt.Fprintf(&s.out, "%s waits for the worker\n", name)
		s.waits[name] = a.wake
	default:
		s.answer(s.table.refuse(a.finding))
	}
}

func (s *script) release(name string, neverSent bool) {
	o := Completed
	if neverSent {
		o = NeverSent
	}
	if l := s.leases[name]; l.phase != phaseOver {
		fx := l.release(s.now, s.table.wallNow(), o)
		s.table.perform(&fx)
	}
}

func (s *script) answer(err error) {
	if err == nil {
		s.out.WriteString("ok\n")
		return
	}
	fmt.Fprintf(&s.out, "refused: %v\n", err)
}

func (s *script) reportEvents() {
	for _, e := range s.events {
		fmt.Fprintf(&s.out, "published: %v %s", e.Kind, e.Session)
		if !e.Target.IsZero() {
			fmt.Fprintf(&s.out, " at %v life=%v", e.Target, e.Life)
		}
		fmt.Fprintf(&s.out, " version=%d/%d\n", e.Sequence, e.WriterID)
	}
	s.events = nil
}

func (s *script) reportWoken() {
	for _, name := range slices.Sorted(maps.Keys(s.waits)) {
		select {
		case <-s.waits[name]:
			fmt.Fprintf(&s.out, "woken: %s\n", name)
			delete(s.waits, name)
		default:
		}
	}
}

// state prints every entry as it is stored, expired or not.
func (s *script) state() string {
	var lines []string
	for i := range s.table.shards {
		for _, e := range s.table.shards[i].mu.entries {
			lines = append(lines, s.line(e))
		}
	}
	slices.Sort(lines)
	bindings, leases := s.table.counts()
	return fmt.Sprintf("t=%v entries=%d bindings=%d leases=%d\n%s",
		time.Duration(s.now), s.table.entries.Load(), bindings, leases, strings.Join(lines, ""))
}

func (s *script) line(e *entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s:", e.session)
	if e.bound() {
		fmt.Fprintf(&b, " at %v version=%d/%d leases=%d revision=%d", e.target, e.version.sequence, e.version.writer, e.leases, e.revision)
		fmt.Fprintf(&b, " life=%v", timeLeft(e.deadline, s.now))
		if e.unused {
			b.WriteString(" unused")
		}
	}
	if e.turn != nil {
		fmt.Fprintf(&b, " turn(revision=%d left=%v)", e.turn.revision, timeLeft(e.turn.deadline, s.now))
	}
	b.WriteString("\n")
	return b.String()
}
