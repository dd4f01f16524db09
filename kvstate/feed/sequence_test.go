package feed

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestSequence runs testdata/sequence. Payloads are the letter of the engine
// process and the number, so that two processes differ.
//
//	new [replay]        a feed
//	connected, lost     the connection
//	live A:3 A:4        live batches
//	missed              live batches were dropped
//	replayed A:3 A:4    batches of the last replay asked for (attempt=N: of that)
//	complete, cut       the end of it
func TestSequence(t *testing.T) {
	datadriven.Walk(t, "testdata/sequence", func(t *testing.T, path string) {
		var s *sequencer
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				s = &sequencer{canReplay: d.HasArg("replay"), dropped: new([reasons]uint64)}
				return state(s)
			}
			attempt := s.attempt
			d.MaybeScanArgs(t, "attempt", &attempt)
			var out strings.Builder
			show := func(actions []action) {
				for _, a := range actions {
					out.WriteString(a.String() + "\n")
				}
			}
			each := func(do func(seq uint64, payload []byte) []action) {
				for _, arg := range d.CmdArgs {
					if arg.Key == "attempt" {
						continue
					}
					show(do(parse(t, arg.Key)))
				}
			}
			switch d.Cmd {
			case "connected":
				show(s.connected())
			case "lost":
				show(s.lost())
			case "live":
				each(s.received)
			case "missed":
				show(s.missed())
			case "replayed":
				each(func(seq uint64, payload []byte) []action { return s.replayed(attempt, seq, payload) })
			case "complete":
				show(s.replayEnded(attempt, true))
			case "cut":
				show(s.replayEnded(attempt, false))
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			return out.String() + state(s)
		})
	})
}

func parse(t *testing.T, arg string) (seq uint64, payload []byte) {
	t.Helper()
	_, number, ok := strings.Cut(arg, ":")
	if _, err := fmt.Sscan(number, &seq); !ok || err != nil {
		t.Fatalf("batch %q: %v", arg, err)
	}
	return seq, []byte(arg)
}

func (a action) String() string {
	switch a.kind {
	case apply:
		return fmt.Sprintf("apply %d (%s)", a.seq, a.payload)
	case hole:
		return fmt.Sprintf("hole [%d,%d)", a.seq, a.until)
	case restart:
		return "restart"
	case replay:
		return fmt.Sprintf("replay from %d, attempt %d, try %d", a.seq, a.attempt, a.tries)
	}
	return "?"
}

func state(s *sequencer) string {
	out := fmt.Sprintf("next=%d", s.next)
	if s.repairing {
		out += fmt.Sprintf(" repairing(from=%d verify=%t)", s.start, s.verify)
	}
	if s.unproven {
		out += " unproven"
	}
	if len(s.waiting) > 0 {
		out += " waiting"
		for _, w := range s.waiting {
			out += fmt.Sprint(" ", w.seq)
		}
	}
	for r, n := range s.dropped {
		if n > 0 {
			out += fmt.Sprintf(" %s=%d", Reason(r), n)
		}
	}
	return out + "\n"
}
