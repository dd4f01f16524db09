package affinity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mooring/internal/fleet"
)

func TestPinToAnUnknownTargetListsWhatExists(t *testing.T) {
	table, live := newTestTable(t, Config{})
	live.Publish(fleetOf(fleet.Active, fleet.Draining))
	for _, bad := range []string{"9", "9:0", "1:2"} {
		_, err := table.Pin("s", target(t, bad))
		var unknown *UnknownTargetError
		if !errors.As(err, &unknown) || unknown.Target != target(t, bad) || len(unknown.Workers) != 2 {
			t.Errorf("%s: %v", bad, err)
			continue
		}
		for _, want := range []string{"1 (10.0.0.1:8000, active, ranks 0 to 1)", "2 (10.0.0.2:8000, draining, ranks 0 to 1)"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
	}
	if _, ok := table.Lookup("s"); ok {
		t.Error("the refused pin left a binding")
	}
	if _, err := table.Pin("s", fleet.Target{}); err == nil {
		t.Error("pinned to no target")
	}
	if e, err := table.Pin("s", target(t, "2:1")); err != nil || e.Target != target(t, "2:1") || e.Schedulable {
		t.Errorf("a worker that exists but drains: %+v, %v", e, err)
	}
}

func TestUnknownTargetErrorIsBounded(t *testing.T) {
	states := make([]fleet.State, 2000)
	err := &UnknownTargetError{Workers: fleetOf(states...).Workers()}
	if n := len(err.Error()); n > 4096 || !strings.Contains(err.Error(), "and 1950 more") {
		t.Errorf("%d bytes", n)
	}
	if none := (&UnknownTargetError{}).Error(); !strings.Contains(none, "none") {
		t.Errorf("got %q", none)
	}
}

func TestPinThatChangesNothingElse(t *testing.T) {
	table, _ := newTestTable(t, Config{WriterID: 42})
	e, err := table.Pin("s", target(t, "3:1"))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := table.Lookup("s"); !ok || got.Target != e.Target || got.Sequence != e.Sequence || got.WriterID != 42 || got.Session != "s" || got.Partition != mooring {
		t.Errorf("pinned %+v, found %+v", e, got)
	}
	if !table.Unpin("s") || table.Unpin("s") {
		t.Error("want one binding to unpin, and then none")
	}
}

func TestQueryAnswersLikeAcquireAndChangesNothing(t *testing.T) {
	for _, mode := range []WhenGone{Rebind, Fail, Wait} {
		table, live := newTestTable(t, Config{WhenGone: mode})
		query := func(session, requested, want string, wantErr error) {
			t.Helper()
			before := dumpTable(table, 0)
			got, ok, err := table.Query(session, target(t, requested))
			if got != target(t, want) || ok != (want != "") || !errors.Is(err, wantErr) {
				t.Errorf("%v: query %s %q = %v, %v, %v; want %q, %v", mode, session, requested, got, ok, err, want, wantErr)
			}
			if after := dumpTable(table, 0); after != before {
				t.Errorf("%s became %s", before, after)
			}
		}
		query("new", "", "", nil)
		query("new", "1:0", "", nil)
		query("new", "9", "", ErrWorkerGone)
		bindTo(t, table, "s", target(t, "1:0")).Release(Completed)
		query("s", "", "1:0", nil)
		query("s", "1", "1:0", nil)
		query("s", "2", "", ErrConflict)
		choosing := acquired(t, table, "c")
		query("c", "", "", nil)
		choosing.Release(Completed)
		live.Publish(fleetOf(fleet.Unhealthy, fleet.Active))
		wantErr := error(nil)
		if mode == Fail {
			wantErr = ErrWorkerGone
		}
		query("s", "", "", wantErr)
		query("s", "2:0", "", nil)
	}
}

func TestSessionOfTwoModelsHasTwoBindings(t *testing.T) {
	workers := []fleet.Worker{
		{ID: 1, Address: "10.0.0.1:8000", Models: []string{"a"}, Group: "default", Ranks: 1, State: fleet.Active},
		{ID: 2, Address: "10.0.0.2:8000", Models: []string{"b"}, Group: "default", Ranks: 1, State: fleet.Active},
	}
	r, err := NewResolver(fleet.NewLive(fleet.NewView(workers)), Config{})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := r.Table(fleet.Partition{Model: "a", Group: "default"})
	b, _ := r.Table(fleet.Partition{Model: "b", Group: "default"})
	bindTo(t, a, "s", fleet.OnRank(1, 0)).Release(Completed)
	bindTo(t, b, "s", fleet.OnRank(2, 0)).Release(Completed)
	isBoundTo(t, acquired(t, a, "s"), fleet.OnRank(1, 0))
	isBoundTo(t, acquired(t, b, "s"), fleet.OnRank(2, 0))
	if _, err := a.Acquire(t.Context(), "new", fleet.OnRank(2, 0)); !errors.Is(err, ErrWorkerGone) {
		t.Errorf("a worker that lacks the model: %v", err)
	}
	if counts := r.BindingsByWorker(); counts[1] != 1 || counts[2] != 1 || len(counts) != 2 {
		t.Errorf("bindings by worker: %v", counts)
	}
}

// twoPartitions returns a resolver over models "m" and "n", with sessions 000 to
// 099 bound in both.
func twoPartitions(t *testing.T) *Resolver {
	t.Helper()
	w := fleet.Worker{ID: 1, Address: "10.0.0.1:8000", Models: []string{"m", "n"}, Group: "default", Ranks: 1, State: fleet.Active}
	other := w
	other.ID, other.Address = 2, "10.0.0.2:8000"
	r, err := NewResolver(fleet.NewLive(fleet.NewView([]fleet.Worker{w, other})), Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"n", "m"} {
		table, _ := r.Table(fleet.Partition{Model: model, Group: "default"})
		for i := range 100 {
			bindTo(t, table, fmt.Sprintf("%03d", i), fleet.OnRank(fleet.WorkerID(i%2+1), 0)).Release(Completed)
		}
	}
	return r
}

// listed pages through everything; between runs between pages.
func listed(t *testing.T, r *Resolver, f Filter, limit int, between func()) (names []string) {
	t.Helper()
	for after := ""; ; {
		page, next := r.List(f, after, limit)
		if len(page) > limit || next != "" && len(page) < limit {
			t.Fatalf("a page of %d with next %q", len(page), next)
		}
		for _, e := range page {
			names = append(names, e.Partition.Model+"/"+e.Session)
		}
		if after = next; after == "" {
			return names
		}
		between()
	}
}

func TestListPagesInOrder(t *testing.T) {
	r := twoPartitions(t)
	for _, limit := range []int{1, 7, 50, 100, 200, 1000} {
		got := listed(t, r, Filter{}, limit, func() {})
		if len(got) != 200 || !slices.IsSorted(got) || got[0] != "m/000" || got[199] != "n/099" {
			t.Errorf("limit %d: %d entries, %v", limit, len(got), got)
		}
	}
	for want, f := range map[int]Filter{100: {Model: "m"}, 0: {Model: "x"}, 50: {Model: "n", Worker: 2}, 200: {Group: "default"}} {
		if got := listed(t, r, f, 30, func() {}); len(got) != want {
			t.Errorf("%+v: %d entries, want %d", f, len(got), want)
		}
	}
	if page, next := r.List(Filter{}, "no cursor!", 10); len(page) != 0 || next != "" {
		t.Errorf("a foreign cursor gave %d entries, %q", len(page), next)
	}
	if page, _ := r.List(Filter{}, "", -5); len(page) != 1 {
		t.Errorf("limit -5 gave %d entries", len(page))
	}
}

func TestListIsStableUnderChange(t *testing.T) {
	r := twoPartitions(t)
	m, _ := r.Table(fleet.Partition{Model: "m", Group: "default"})
	round := 0
	got := listed(t, r, Filter{}, 9, func() {
		round++
		// One that is yet to come ends, one that was listed ends, others come.
		m.Unpin(fmt.Sprintf("%03d", 99-round))
		m.Unpin(fmt.Sprintf("%03d", round))
		bindTo(t, m, fmt.Sprintf("new-%03d", round), fleet.OnRank(1, 0)).Release(Completed)
		bindTo(t, m, fmt.Sprintf("+%03d", round), fleet.OnRank(1, 0)).Release(Completed)
	})
	if unique := slices.Compact(slices.Sorted(slices.Values(got))); len(unique) != len(got) {
		t.Errorf("%d entries, %d different ones", len(got), len(unique))
	}
	for i := range 100 {
		if _, still := m.Lookup(fmt.Sprintf("%03d", i)); still && !slices.Contains(got, fmt.Sprintf("m/%03d", i)) {
			t.Errorf("%03d was there all the time and is not listed", i)
		}
		if !slices.Contains(got, fmt.Sprintf("n/%03d", i)) {
			t.Errorf("n/%03d is not listed", i)
		}
	}
}

func TestCursorKeepsEveryName(t *testing.T) {
	for _, c := range []cursor{
		{fleet.Partition{Model: "org/m@v2", Group: "default"}, "s"},
		{fleet.Partition{Model: "a\x00\x01b\x00", Group: "\x00\x02"}, "\x01sg:\x00\x02\x00"},
		{fleet.Partition{}, ""},
		{fleet.Partition{Model: "\x00\x00\x02", Group: "\x02\x00"}, "\x02"},
	} {
		got, ok := parseCursor(c.String())
		if !ok || got != c {
			t.Errorf("%+v became %+v, %v", c, got, ok)
		}
	}
}

func TestListAndLookupSeeNoExpiredAndNoUnboundSessions(t *testing.T) {
	r, _ := newTestResolver(t, Config{TTL: time.Second})
	table, _ := r.Table(mooring)
	bindTo(t, table, "idle", fleet.OnRank(1, 0)).Release(Completed)
	held := bindTo(t, table, "held", fleet.OnRank(2, 0))
	choosing := acquired(t, table, "choosing")
	table.epoch = table.epoch.Add(-time.Hour) // time passes
	page, _ := r.List(Filter{}, "", 10)
	if len(page) != 1 || page[0].Session != "held" || page[0].Leases != 1 {
		t.Errorf("listed %+v", page)
	}
	if counts := r.BindingsByWorker(); counts[1] != 0 || counts[2] != 1 {
		t.Errorf("counted %v", counts)
	}
	for _, session := range []string{"idle", "choosing", "never"} {
		if e, ok := table.Lookup(session); ok {
			t.Errorf("%s: %+v", session, e)
		}
	}
	held.Release(Completed)
	choosing.Release(Completed)
}
