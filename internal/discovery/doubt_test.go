package discovery

import (
	"cmp"
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

// TestDoubt runs the scripts in testdata/doubt. Commands:
//
//	new [grace=D]                        no sources; the clock is at 0s
//	answer source=NAME [workers=(W...)]  the source lists these; W is an id, or
//	                                     id@n for another address than its own
//	fail source=NAME                     the source cannot answer
//	wait for=D                           the clock moves; doubts may end
func TestDoubt(t *testing.T) {
	var (
		sources map[string]*source
		grace   time.Duration
		start   = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		now     time.Time
	)
	datadriven.RunTest(t, "testdata/doubt", func(t *testing.T, td *datadriven.TestData) string {
		var b strings.Builder
		switch td.Cmd {
		case "new":
			now, grace, sources = start, 30*time.Second, map[string]*source{}
			if td.HasArg("grace") {
				grace = duration(t, td, "grace")
			}
			return ""
		case "answer":
			var name string
			td.ScanArgs(t, "source", &name)
			if sources[name] == nil {
				sources[name] = &source{name: name}
			}
			o := sources[name].answer(now, grace, answerOf(t, td))
			fmt.Fprintf(&b, "%d of %d missing", o.missing, o.known)
			if o.began {
				b.WriteString(", a doubt began")
			}
			if o.ended {
				b.WriteString(", the doubt ended")
			}
			b.WriteByte('\n')
		case "fail":
			var name string
			td.ScanArgs(t, "source", &name)
			sources[name].fail()
		case "wait":
			now = now.Add(duration(t, td, "for"))
			for _, name := range slices.Sorted(maps.Keys(sources)) {
				if n := sources[name].believe(now); n > 0 {
					fmt.Fprintf(&b, "%s is believed about %d\n", name, n)
				}
			}
		default:
			t.Fatalf("unknown command %s", td.Cmd)
		}
		ordered := slices.SortedFunc(maps.Values(sources), func(a, b *source) int { return cmp.Compare(a.name, b.name) })
		describeSources(&b, ordered, start)
		return b.String()
	})
}

func answerOf(t *testing.T, td *datadriven.TestData) map[fleet.WorkerID]listing {
	listed := make(map[fleet.WorkerID]listing)
	for _, arg := range td.CmdArgs {
		if arg.Key != "workers" {
			continue
		}
		for _, text := range arg.Vals {
			idText, at, moved := strings.Cut(text, "@")
			id, err := fleet.ParseWorkerID(idText)
			if err != nil {
				t.Fatal(err)
			}
			if !moved {
				at = idText
			}
			l, err := newListing(Spec{ID: id, Address: "10.0.0." + at + ":8000"})
			if err != nil {
				t.Fatal(err)
			}
			listed[id] = l
		}
	}
	return listed
}

func describeSources(b *strings.Builder, sources []*source, start time.Time) {
	for _, s := range sources {
		fmt.Fprintf(b, "%s lists %v", s.name, slices.Sorted(maps.Keys(s.listed)))
		for _, id := range slices.Sorted(maps.Keys(s.doubted)) {
			fmt.Fprintf(b, ", doubts %v until %v", id, s.doubted[id].until.Sub(start))
		}
		if !s.settles.IsZero() {
			fmt.Fprintf(b, ", next %v", s.settles.Sub(start))
		}
		b.WriteByte('\n')
	}
	all, duplicates := merge(sources)
	var there, twice []string
	for _, id := range slices.Sorted(maps.Keys(all)) {
		text := id.String()
		if host := strconv.Itoa(int(all[id].place.ip.As4()[3])); host != text {
			text += "@" + host
		}
		there = append(there, text)
	}
	for dup := range duplicates {
		twice = append(twice, fmt.Sprintf("%v of %s (%s has it)", dup.id, dup.source, dup.winner))
	}
	slices.Sort(twice)
	fmt.Fprintf(b, "there: %s", strings.Join(there, " "))
	if len(twice) > 0 {
		fmt.Fprintf(b, "; duplicates: %s", strings.Join(twice, ", "))
	}
	b.WriteByte('\n')
}
