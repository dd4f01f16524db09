package affinity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"mooring/internal/fleet"
)

func TestTablesAreMadeForTheFleetsPartitionsOnly(t *testing.T) {
	r, live := newTestResolver(t, Config{})
	for _, p := range []fleet.Partition{{}, {Model: "x", Group: "default"}, {Model: "m", Group: "x"}} {
		if table, ok := r.Table(p); ok || table != nil {
			t.Errorf("%v has a table", p)
		}
	}
	first, ok := r.Table(mooring)
	if !ok {
		t.Fatal("no table")
	}
	live.Publish(fleet.NewView(nil))
	if again, ok := r.Table(mooring); !ok || again != first {
		t.Error("the table did not outlive a short absence of its partition")
	}
}

func TestTablesAreBounded(t *testing.T) {
	models := make([]string, maxTables+10)
	for i := range models {
		models[i] = fmt.Sprintf("m%04d", i)
	}
	live := fleet.NewLive(fleet.NewView([]fleet.Worker{{ID: 1, Address: "10.0.0.1:1", Models: models, Group: "default", Ranks: 1, State: fleet.Active}}))
	registry := prometheus.NewPedanticRegistry()
	r, err := NewResolver(live, Config{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, m := range models {
		if _, ok := r.Table(fleet.Partition{Model: m, Group: "default"}); ok {
			made++
		}
	}
	if made != maxTables || !slices.Contains(scraped(t, registry), "mooring_session_tables_refused_total 10") {
		t.Errorf("%d tables, %v", made, scraped(t, registry))
	}
}

func TestRunFreesWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, live := newTestResolver(t, Config{TTL: time.Minute, Grace: 30 * time.Second, InitTimeout: 5 * time.Second})
		table, _ := r.Table(mooring)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
		lost := acquired(t, table, "stuck")

		time.Sleep(5*time.Second + sweepEvery)
		if n := table.entries.Load(); n != 1 {
			t.Errorf("%d entries after the init timeout, want the binding", n)
		}
		live.Publish(fleet.NewView(nil))
		time.Sleep(45 * time.Second)
		if again, ok := r.Table(mooring); !ok || again != table {
			t.Error("the table went although it has a binding")
		}
		time.Sleep(10*time.Second + sweepEvery)
		if n := table.entries.Load(); n != 0 {
			t.Errorf("%d entries after the TTL", n)
		}
		if _, ok := r.Table(mooring); ok {
			t.Error("the empty table of an absent partition stays")
		}
		live.Publish(fleetOf(fleet.Active))
		if again, ok := r.Table(mooring); !ok || again == table {
			t.Error("no new table for the partition that returned")
		}
		time.Sleep(time.Hour)
		if _, ok := (*r.tables.Load())[mooring]; !ok {
			t.Error("the empty table of a partition that the fleet has is gone")
		}
		lost.Release(Completed)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestEmptyTableOutlivesTheGraceOnlyOnceTheGraceIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, live := newTestResolver(t, Config{Grace: 30 * time.Second})
		r.Table(mooring)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		live.Publish(fleet.NewView(nil))
		for range 3 { // a partition that comes back in time starts anew
			time.Sleep(29 * time.Second)
			live.Publish(fleetOf(fleet.Active))
			time.Sleep(2 * time.Second)
			live.Publish(fleet.NewView(nil))
		}
		if _, ok := r.Table(mooring); !ok {
			t.Error("the table is gone")
		}
		time.Sleep(32 * time.Second)
		if _, ok := r.Table(mooring); ok {
			t.Error("the table stays")
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	live := fleet.NewLive(fleet.NewView(nil))
	good := []Config{{}, {TTL: time.Second}, {TTL: 1500 * time.Millisecond}, {TTL: MaxTTL}, {MaxSessions: 1}, {Mode: Soft, WhenGone: Wait}}
	for _, cfg := range good {
		if _, err := NewResolver(live, cfg); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	bad := map[string][]Config{
		"TTL":      {{TTL: -1}, {TTL: time.Second - 1}, {TTL: time.Second / 2}, {TTL: MaxTTL + 1}, {TTL: math.MaxInt64}, {TTL: math.MinInt64}},
		"sessions": {{MaxSessions: -1}, {MaxSessions: math.MaxInt}},
		"mode":     {{Mode: 2}},
		"gone":     {{WhenGone: 3}},
		"negative": {{InitTimeout: -1}, {WaitFor: -1}, {Grace: -1}, {MaxClockSkew: -1}},
	}
	for want, configs := range bad {
		for _, cfg := range configs {
			if _, err := NewResolver(live, cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want an error that names %q", cfg, err, want)
			}
		}
	}
	if _, err := NewResolver(nil, Config{}); err == nil {
		t.Error("a resolver without a fleet")
	}
}

// scraped returns a line for each metric, ordered.
func scraped(t *testing.T, g prometheus.Gatherer) (lines []string) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += " " + l.GetName() + "=" + l.GetValue()
			}
			lines = append(lines, fmt.Sprint(line, " ", m.GetCounter().GetValue()+m.GetGauge().GetValue()))
		}
	}
	return lines
}

func TestMetricsTellWhatHappened(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	table, live := newTestTable(t, Config{Registerer: registry, MaxSessions: 3, InitTimeout: time.Minute})
	moved := bindTo(t, table, "moved", fleet.OnRank(1, 0))
	moved.Release(Completed)
	bindTo(t, table, "unsent", fleet.OnRank(2, 0)).Release(NeverSent)
	if _, err := table.Acquire(t.Context(), "moved", fleet.OnRank(2, 0)); err == nil {
		t.Error("no conflict")
	}
	live.Publish(fleetOf(fleet.Vanished, fleet.Active, fleet.Active))
	bindTo(t, table, "moved", fleet.OnRank(2, 0))
	if _, err := table.Pin("moved", fleet.OnRank(3, 0)); err != nil {
		t.Error(err)
	}
	bindTo(t, table, "b", fleet.OnRank(2, 0))
	table.Unpin("b")
	acquired(t, table, "c")
	acquired(t, table, "d")
	if _, err := table.Acquire(t.Context(), "e", fleet.Target{}); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if _, err := table.Acquire(t.Context(), "\xff", fleet.Target{}); err == nil {
		t.Error("accepted")
	}
	want := []string{
		"mooring_bindings 1",
		"mooring_leases 1",
		"mooring_session_endings_total cause=expired 0",
		"mooring_session_endings_total cause=never_sent 1",
		"mooring_session_endings_total cause=unpinned 1",
		"mooring_session_floors_evicted_total 0",
		"mooring_session_moves_total cause=failover 0",
		"mooring_session_moves_total cause=pin 1",
		"mooring_session_moves_total cause=replica 0",
		"mooring_session_moves_total cause=soft 0",
		"mooring_session_moves_total cause=worker_gone 1",
		"mooring_session_refusals_total reason=conflict 1",
		"mooring_session_refusals_total reason=full 1",
		"mooring_session_refusals_total reason=initialiser_lost 0",
		"mooring_session_refusals_total reason=invalid 1",
		"mooring_session_refusals_total reason=worker_gone 0",
		"mooring_session_tables_refused_total 0",
		"mooring_session_turns_lost_total 0",
		"mooring_session_waiters 0",
	}
	if diff := cmp.Diff(want, scraped(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if _, err := NewResolver(live, Config{Registerer: registry}); err == nil {
		t.Error("two resolvers share one registry")
	}
}

// TestPublishIsCalledWithoutALock: a listener may look at the very session.
func TestPublishIsCalledWithoutALock(t *testing.T) {
	var table *Table
	var seen []string
	table, _ = newTestTable(t, Config{Publish: func(p fleet.Partition, e Event) {
		entry, bound := table.Lookup(e.Session)
		seen = append(seen, fmt.Sprintf("%s %v %v", p.Model, e.Kind, bound && entry.Sequence == e.Sequence))
	}})
	bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
	table.Unpin("s")
	if got, want := strings.Join(seen, ", "), "m bound true, m used true, m unpinned false"; got != want {
		t.Errorf("heard %q, want %q", got, want)
	}
}

func TestVersionsGrowBeyondTheClockAndNeverWrap(t *testing.T) {
	var s sequencer
	at := func(ns int64, above uint64) uint64 {
		t.Helper()
		v, ok := s.next(time.Unix(0, ns), time.Minute, above)
		if !ok {
			t.Fatal("no version")
		}
		return v
	}
	for i, got := range []uint64{at(1000, 0), at(1000, 0), at(500, 0), at(2000, 0), at(-5, 0), at(2000, 5000), at(2000, 0)} {
		if want := []uint64{1000, 1001, 1002, 2000, 2001, 5001, 5002}[i]; got != want {
			t.Errorf("version %d is %d, want %d", i, got, want)
		}
	}
	if v := at(0, math.MaxUint64-1); v != math.MaxUint64 {
		t.Errorf("the last version is %d", v)
	}
	s.last.Store(math.MaxUint64)
	if v, ok := s.next(time.Unix(0, 1), time.Minute, 0); ok {
		t.Errorf("after the last version comes %d", v)
	}
}

func TestNothingIsBoundWhenNoVersionIsLeft(t *testing.T) {
	table, _ := newTestTable(t, Config{})
	kept := bindTo(t, table, "kept", fleet.OnRank(1, 0))
	fresh := bindTo(t, table, "fresh", fleet.OnRank(1, 0))
	l := acquired(t, table, "s")
	table.sequence.last.Store(math.MaxUint64)
	if err := l.Bind(fleet.OnRank(1, 0)); !errors.Is(err, ErrSequenceExhausted) {
		t.Errorf("bind: %v", err)
	}
	if _, err := table.Pin("kept", fleet.OnRank(2, 0)); !errors.Is(err, ErrSequenceExhausted) {
		t.Errorf("pin: %v", err)
	}
	isBoundTo(t, acquired(t, table, "kept"), fleet.OnRank(1, 0))
	kept.Release(Completed)
	fresh.Release(NeverSent)
	if _, ok := table.Lookup("fresh"); ok {
		t.Error("a void binding stays because its end cannot be told")
	}
	if !table.Unpin("kept") {
		t.Error("an operator cannot unpin")
	}
}
