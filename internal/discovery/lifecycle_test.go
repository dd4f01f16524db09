package discovery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"mooring/internal/fleet"
)

// TestLifecycle runs the scripts in testdata/lifecycle. Each command is followed
// by the whole state. Commands:
//
//	new [probing=off]          a worker that was never seen; the clock is at 0s
//	list [drain]               its source lists it
//	unlist
//	relocate [settle=D]        it has a new address
//	dislocate                  its address is not known
//	pass, fail [times=N]       probes
//	probing on|off             SetHealth with or without a path
//	wait for=D                   the clock moves
func TestLifecycle(t *testing.T) {
	var (
		l     lifecycle
		h     Health
		start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		now   time.Time
	)
	datadriven.RunTest(t, "testdata/lifecycle", func(t *testing.T, td *datadriven.TestData) string {
		times := 1
		td.MaybeScanArgs(t, "times", &times)
		for range times {
			switch td.Cmd {
			case "new":
				now, l = start, lifecycle{since: start}
				h = Health{Path: "/health"}.withDefaults()
				if td.HasArg("probing") {
					h.Path = ""
				}
				l.list(td.HasArg("drain"))
			case "list":
				l.list(td.HasArg("drain"))
			case "unlist":
				l.unlist()
			case "relocate":
				var settles time.Time
				if td.HasArg("settle") {
					settles = now.Add(duration(t, td, "settle"))
				}
				l.relocate(settles)
			case "dislocate":
				l.dislocate()
			case "pass":
				l.pass(h)
			case "fail":
				l.fail(h)
			case "probing":
				if td.HasArg("on") {
					h.Path = "/health"
					l.trust()
				} else {
					h.Path = ""
				}
			case "wait":
				now = now.Add(duration(t, td, "for"))
			default:
				t.Fatalf("unknown command %s", td.Cmd)
			}
		}
		return describe(&l, now, start, h)
	})
}

func describe(l *lifecycle, now, start time.Time, h Health) string {
	const grace = 30 * time.Second
	var b strings.Builder
	changed, why := l.advance(now, h)
	fmt.Fprintf(&b, "%v: %v since %v, %v %d", now.Sub(start), l.state, l.since.Sub(start), l.verdict, l.streak)
	if changed {
		fmt.Fprintf(&b, ", changed: %s", why)
	}
	if at, ok := l.next(now, grace); ok {
		fmt.Fprintf(&b, ", next at %v", at.Sub(start))
	}
	if l.forgotten(now, grace) {
		b.WriteString(", forgotten")
	}
	return b.String() + "\n"
}

func duration(t *testing.T, td *datadriven.TestData, key string) time.Duration {
	t.Helper()
	var text string
	td.ScanArgs(t, key, &text)
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOnlyProbesAndListsMakeAWorkerActive(t *testing.T) {
	// The zero lifecycle must give nobody anything.
	var l lifecycle
	l.advance(time.Time{}, Health{Path: "/health"})
	if l.state == fleet.Active {
		t.Error("a worker nobody lists is active")
	}
}
