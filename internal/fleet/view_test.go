package fleet_test

import (
	"fmt"
	"slices"
	"testing"

	"mooring/internal/fleet"
)

func worker(id fleet.WorkerID, state fleet.State, models ...string) fleet.Worker {
	return fleet.Worker{ID: id, Address: fmt.Sprintf("10.0.0.%d:8000", id), Models: models, Group: fleet.DefaultName, Ranks: 1, State: state}
}

func TestOnlyActiveWorkersAreSchedulable(t *testing.T) {
	p := fleet.Partition{Model: "m", Group: fleet.DefaultName}
	v := fleet.NewView([]fleet.Worker{
		worker(4, fleet.Vanished, "m"), worker(3, fleet.Unhealthy, "m"), worker(2, fleet.Draining, "m"), worker(1, fleet.Active, "m"),
	})
	if got := v.Schedulable(p); !slices.Equal(got, []fleet.Target{fleet.OnRank(1, 0)}) {
		t.Errorf("schedulable = %v, want rank 0 of worker 1", got)
	}
	for id := fleet.WorkerID(1); id <= 4; id++ {
		if got, want := v.IsSchedulable(p, fleet.WorkerOnly(id)), id == 1; got != want {
			t.Errorf("IsSchedulable(worker %d) = %v, want %v", id, got, want)
		}
	}
	if got := len(v.Members(p)); got != 4 {
		t.Errorf("members = %d, want all 4", got)
	}
	if first := v.Workers()[0].ID; first != 1 {
		t.Errorf("first worker = %d, want the lowest id", first)
	}
}

func TestEveryRankIsATarget(t *testing.T) {
	w := worker(7, fleet.Active, "m")
	w.Ranks = 3
	p := fleet.Partition{Model: "m", Group: fleet.DefaultName}
	v := fleet.NewView([]fleet.Worker{w})
	if got, want := v.Schedulable(p), []fleet.Target{fleet.OnRank(7, 0), fleet.OnRank(7, 1), fleet.OnRank(7, 2)}; !slices.Equal(got, want) {
		t.Errorf("schedulable = %v, want %v", got, want)
	}
	if !v.IsSchedulable(p, fleet.OnRank(7, 2)) || v.IsSchedulable(p, fleet.OnRank(7, 3)) {
		t.Error("want rank 2 to exist and rank 3 not to")
	}
}

func TestPartitionsNeverMix(t *testing.T) {
	other := worker(2, fleet.Active, "m")
	other.Group = "batch"
	v := fleet.NewView([]fleet.Worker{worker(1, fleet.Active, "m"), other})
	if v.IsSchedulable(fleet.Partition{Model: "m", Group: "batch"}, fleet.WorkerOnly(1)) {
		t.Error("worker 1 is schedulable for another group")
	}
	if got, want := v.Partitions(), []fleet.Partition{{Model: "m", Group: "batch"}, {Model: "m", Group: "default"}}; !slices.Equal(got, want) {
		t.Errorf("partitions = %v, want %v", got, want)
	}
}

func TestSolePartitionIsKnownWithoutAModel(t *testing.T) {
	tests := []struct {
		name    string
		workers []fleet.Worker
		want    string
	}{
		{"one model everywhere", []fleet.Worker{worker(1, fleet.Active, "m"), worker(2, fleet.Unhealthy, "m")}, "m"},
		{"two models on two workers", []fleet.Worker{worker(1, fleet.Active, "m"), worker(2, fleet.Active, "n")}, ""},
		{"two models on one worker", []fleet.Worker{worker(1, fleet.Active, "m", "n")}, ""},
		{"nobody", nil, ""},
	}
	for _, tt := range tests {
		p, ok := fleet.NewView(tt.workers).SolePartition(fleet.DefaultName)
		if p.Model != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %q, %v; want %q", tt.name, p.Model, ok, tt.want)
		}
	}
}

func TestAdapterBelongsToItsWorkersFirstModel(t *testing.T) {
	w := worker(1, fleet.Active, "base", "second")
	w.Adapters = []string{"lora", "second"}
	v := fleet.NewView([]fleet.Worker{w})
	for model, want := range map[string]string{"base": "base", "lora": "base", "second": "second", "none": ""} {
		p, ok := v.PartitionOf(fleet.DefaultName, model)
		if p.Model != want || ok != (want != "") {
			t.Errorf("PartitionOf(%q) = %q, %v; want %q", model, p.Model, ok, want)
		}
	}
	if got, want := v.Models(fleet.DefaultName), []string{"base", "lora", "second"}; !slices.Equal(got, want) {
		t.Errorf("models = %v, want %v", got, want)
	}
}

func TestAddressOfAVanishedWorkerBelongsToItsSuccessor(t *testing.T) {
	for _, order := range [][2]fleet.WorkerID{{1, 2}, {2, 1}} {
		gone, successor := worker(order[0], fleet.Vanished, "m"), worker(order[1], fleet.Active, "m")
		gone.Address, successor.Address = "10.0.0.9:8000", "10.0.0.9:8000"
		v := fleet.NewView([]fleet.Worker{gone, successor})
		if w, ok := v.WorkerAt("10.0.0.9:8000"); !ok || w.ID != successor.ID {
			t.Errorf("with ids %v the address belongs to %v, want the successor", order, w)
		}
	}
}

func TestAWorkerWithoutAnAddressIsNowhere(t *testing.T) {
	w := worker(1, fleet.Unhealthy, "m")
	w.Address = "" // a name that was never resolved
	if got, ok := fleet.NewView([]fleet.Worker{w}).WorkerAt(""); ok {
		t.Errorf("the empty address belongs to %v", got)
	}
}

func TestZeroViewIsEmpty(t *testing.T) {
	var v fleet.View
	if _, ok := v.Worker(1); ok || v.HasGroup("default") || v.HasPartition(fleet.Partition{}) || len(v.Workers()) > 0 || len(v.Models("default")) > 0 {
		t.Error("the zero view knows somebody")
	}
}
