package extproc

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"mooring/internal/fleet"
)

// hint is the metadata of a gateway that names value as its subset.
func hint(t testing.TB, value any) *corev3.Metadata {
	t.Helper()
	fields := must[*structpb.Struct](t)(structpb.NewStruct(map[string]any{headerSubset: value}))
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{namespaceSubset: fields}}
}

func listOf(values ...any) []any { return values }

func TestReadSubset(t *testing.T) {
	var many []any
	for n := range maxSubset + 1 {
		many = append(many, fmt.Sprintf("10.0.%d.%d", n/256, n%256))
	}
	tests := []struct {
		name       string
		value      any
		want       string
		unreadable bool
	}{
		{"list", listOf("10.0.0.2:8000", "10.0.0.1:8000"), "10.0.0.1:8000 10.0.0.2:8000", false},
		{"one string", "10.0.0.1:8000,10.0.0.2:8000", "10.0.0.1:8000 10.0.0.2:8000", false},
		{"strings with commas in a list", listOf("10.0.0.1:1,10.0.0.2", "10.0.0.3"), "10.0.0.1:1 10.0.0.2 10.0.0.3", false},
		{"spaces, gaps and repetitions", " 10.0.0.1:1 ,,10.0.0.1:1,", "10.0.0.1:1", false},
		{"without ports", "10.0.0.1,::1,[2001:DB8::0:1]", "10.0.0.1 2001:db8::1 ::1", false},
		{"IPv6", listOf("[2001:db8:0::1]:80", "[::ffff:10.0.0.1]:80", "::ffff:10.0.0.2"), "10.0.0.1:80 10.0.0.2 [2001:db8::1]:80", false},
		{"empty list", listOf(), "", false},
		{"empty string", "", "", false},
		{"null", nil, "", true},
		{"number", 8000, "", true},
		{"true", true, "", true},
		{"map", map[string]any{"10.0.0.1:8000": true}, "", true},
		{"list in a list", listOf(listOf("10.0.0.1:8000")), "", true},
		{"names", "worker-1:8000,worker-2", "", true},
		{"bad ports", listOf("10.0.0.1:", "10.0.0.1:99999", "10.0.0.1:http"), "", true},
		{"half a bracket", listOf("[::1", "::1]", "]::1["), "", true},
		{"some of it", listOf("10.0.0.1:8000", 7, "nonsense"), "10.0.0.1:8000", true},
		{"too many", many, "", true},
		{"as many as may be", many[1:], "*4096", false},
		{"too long", strings.Repeat(" ", maxSubsetBytes) + "10.0.0.1", "", true},
	}
	for _, tt := range tests {
		got := readSubset(hint(t, tt.value))
		text := strings.Join(got.addresses, " ")
		if len(got.addresses) > 10 {
			text = fmt.Sprintf("*%d", len(got.addresses))
		}
		if !got.restricted || got.unreadable != tt.unreadable || text != tt.want {
			t.Errorf("%s: restricted %v, unreadable %v, %q; want %v and %q", tt.name, got.restricted, got.unreadable, text, tt.unreadable, tt.want)
		}
	}
}

func TestNoSubset(t *testing.T) {
	other := must[*structpb.Struct](t)(structpb.NewStruct(map[string]any{"other": ""}))
	for name, m := range map[string]*corev3.Metadata{
		"no metadata":       nil,
		"another namespace": {FilterMetadata: map[string]*structpb.Struct{namespaceLB: hint(t, "").FilterMetadata[namespaceSubset]}},
		"another key":       {FilterMetadata: map[string]*structpb.Struct{namespaceSubset: other}},
	} {
		if got := readSubset(m); got.restricted || got.unreadable || got.addresses != nil {
			t.Errorf("%s: %+v, want everybody to be allowed", name, got)
		}
	}
}

func FuzzCanonicalEndpoint(f *testing.F) {
	for _, s := range []string{"10.0.0.1:80", "[::1]:80", "[::1]", "::ffff:1.2.3.4", "fe80::1%eth0", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once, ok := canonicalEndpoint(s)
		if again, still := canonicalEndpoint(once); ok && (!still || again != once) {
			t.Errorf("%q is %q, and that is %q", s, once, again)
		}
	})
}

// A request never leaves the gateway's subset, bound or new, and what the
// gateway says that nobody can read is no leave to go anywhere.
func TestSubsetOfAStream(t *testing.T) {
	const worker1, worker2 = "10.0.0.1:8000", "10.0.0.2:8000"
	tests := []struct {
		name       string
		bound      bool // to worker 1
		subset     any
		served     string // "": refused
		unreadable float64
	}{
		{"new, within", false, listOf(worker2), worker2, 0},
		{"new, address only", false, "10.0.0.2", worker2, 0},
		{"new, nobody known", false, "10.0.0.9:8000", "", 0},
		{"new, another port", false, "10.0.0.1:8001", "", 0},
		{"new, empty", false, listOf(), "", 0},
		{"new, unreadable", false, 7, "", 1},
		{"new, partly unreadable", false, listOf(worker2, 7), worker2, 1},
		{"bound, within", true, listOf(worker1, worker2), worker1, 0},
		{"bound, outside", true, listOf(worker2), "", 0},
		{"bound, empty", true, "", "", 0},
		{"bound, unreadable", true, nil, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				r := newRig(t, func(c *Config) {
					c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				})
				if tt.bound {
					r.pin("s", 1)
				}
				first := firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s")
				first.MetadataContext = hint(t, tt.subset)
				p := r.open()
				checkServed(t, p.ask(first), tt.served)
				close(p.in)
				if err := <-p.result; err != nil {
					t.Errorf("the stream ended with %v", err)
				}
				if got := r.oddities(oddSubset); got != tt.unreadable {
					t.Errorf("%v unreadable subsets counted, want %v", got, tt.unreadable)
				}
				if !strings.Contains(log.String(), " restricted=true subset=") {
					t.Errorf("the log does not tell of the subset: %s", log.String())
				}
				if bound := r.boundTo("s"); tt.bound && bound != 1 {
					t.Errorf("the session is bound to %v now", bound)
				}
				r.server.ledger.end(1000, 0, byAccessLog)
				r.clean()
			})
		})
	}
}

// checkServed fails unless the one answer sends the request to address, or
// refuses it if that is "".
func checkServed(t *testing.T, answers []*extprocv3.ProcessingResponse, address string) {
	t.Helper()
	if len(answers) != 1 {
		t.Fatalf("%d answers", len(answers))
	}
	if address == "" {
		checkRefusal(t, answers[0].GetImmediateResponse(), 503, "subset", "")
		return
	}
	got := answers[0].GetDynamicMetadata().GetFields()[namespaceLB].GetStructValue().GetFields()[headerDestination].GetStringValue()
	if got != address {
		t.Errorf("sent to %q, want %q", got, address)
	}
}

func (r *rig) partition() fleet.Partition {
	return fleet.Partition{Model: "m", Group: fleet.DefaultName}
}

// pin binds a session to a worker of the default group.
func (r *rig) pin(session string, worker fleet.WorkerID) {
	r.t.Helper()
	table, ok := r.sessions.Table(r.partition())
	if !ok {
		r.t.Fatal("no table")
	}
	lease, err := table.Acquire(context.Background(), session, fleet.Target{})
	if err != nil {
		r.t.Fatal(err)
	}
	defer lease.Release(0)
	targets := r.live.View().Schedulable(r.partition())
	at := slices.IndexFunc(targets, func(t fleet.Target) bool { return t.Worker == worker })
	if err := lease.Bind(targets[at]); err != nil {
		r.t.Fatal(err)
	}
}

// boundTo returns where a session of the default group is bound; 0 if nowhere.
func (r *rig) boundTo(session string) fleet.WorkerID {
	table, _ := r.sessions.Table(r.partition())
	entry, _ := table.Lookup(session)
	return entry.Target.Worker
}
