package fleet

import (
	"cmp"
	"maps"
	"slices"
)

// View is an immutable picture of all known workers, in every state, with the
// look-ups that a decision needs. All methods are safe for concurrent use and,
// but for Models and Partitions, allocate nothing. The zero View is empty.
type View struct {
	workers     []*Worker // by id
	byID        map[WorkerID]*Worker
	byAddress   map[string]*Worker
	partitions  map[Partition][]*Worker
	schedulable map[Partition][]Target
	groups      map[string]group
}

// group is what one routing group serves.
type group struct {
	models      map[string]string // name or adapter -> the model that owns the partition
	soleModel   string            // set if every worker serves this one model only
	schedulable []Target          // over all models
}

// NewView returns the view of workers, which it takes over: the caller must not
// change them afterwards. Of two workers with one id the first counts; sources
// refuse such lists before they get here.
func NewView(workers []Worker) *View {
	v := &View{
		byID:        make(map[WorkerID]*Worker, len(workers)),
		byAddress:   make(map[string]*Worker, len(workers)),
		partitions:  make(map[Partition][]*Worker),
		schedulable: make(map[Partition][]Target),
		groups:      make(map[string]group),
	}
	for i := range workers {
		w := &workers[i]
		if _, taken := v.byID[w.ID]; taken {
			continue
		}
		v.byID[w.ID] = w
		v.workers = append(v.workers, w)
	}
	slices.SortFunc(v.workers, func(a, b *Worker) int { return cmp.Compare(a.ID, b.ID) })
	for _, w := range v.workers {
		v.add(w)
	}
	for name, g := range v.groups {
		g.soleModel = v.soleModel(name)
		v.groups[name] = g
	}
	return v
}

func (v *View) add(w *Worker) {
	// An address can be shared by a vanished worker and the new one that took
	// its place: the one that can be reached wins.
	if old, taken := v.byAddress[w.Address]; w.Address != "" && (!taken || old.State == Vanished) {
		v.byAddress[w.Address] = w
	}
	g, ok := v.groups[w.Group]
	if !ok {
		g.models = make(map[string]string)
	}
	targets := w.targets()
	for _, model := range w.Models {
		p := Partition{Model: model, Group: w.Group}
		g.models[model] = model
		v.partitions[p] = append(v.partitions[p], w)
		if w.Schedulable() {
			v.schedulable[p] = append(v.schedulable[p], targets...)
		}
	}
	for _, adapter := range w.Adapters {
		// A real model is never hidden by another worker's adapter of that name.
		if _, taken := g.models[adapter]; !taken {
			g.models[adapter] = w.Models[0]
		}
	}
	if w.Schedulable() {
		g.schedulable = append(g.schedulable, targets...)
	}
	v.groups[w.Group] = g
}

// targets returns one target per rank.
func (w *Worker) targets() []Target {
	ts := make([]Target, w.Ranks)
	for i := range ts {
		ts[i] = OnRank(w.ID, uint32(i))
	}
	return ts
}

func (v *View) soleModel(group string) string {
	model := ""
	for p := range v.partitions {
		switch {
		case p.Group != group:
		case model != "":
			return ""
		default:
			model = p.Model
		}
	}
	return model
}

// Workers returns all workers in every state, ordered by id. The slice must not
// be changed.
func (v *View) Workers() []*Worker { return v.workers }

// Worker returns the worker with the given id, in whatever state.
func (v *View) Worker(id WorkerID) (*Worker, bool) {
	w, ok := v.byID[id]
	return w, ok
}

// WorkerAt returns the worker at a canonical destination address.
func (v *View) WorkerAt(address string) (*Worker, bool) {
	w, ok := v.byAddress[address]
	return w, ok
}

// Members returns the workers of a partition, in every state, ordered by id.
// The slice must not be changed.
func (v *View) Members(p Partition) []*Worker { return v.partitions[p] }

// Schedulable returns one target for each rank of each active worker of a
// partition, ordered. The slice must not be changed.
func (v *View) Schedulable(p Partition) []Target { return v.schedulable[p] }

// SchedulableInGroup is Schedulable over all models of a routing group. The
// slice must not be changed.
func (v *View) SchedulableInGroup(name string) []Target { return v.groups[name].schedulable }

// IsSchedulable reports whether a partition's session may be sent to target
// now: the worker is active, belongs to the partition and has that rank.
func (v *View) IsSchedulable(p Partition, t Target) bool {
	w, ok := v.byID[t.Worker]
	return ok && w.Schedulable() && w.Has(t) && w.Group == p.Group && slices.Contains(w.Models, p.Model)
}

// HasPartition reports whether any worker, in whatever state, belongs to p.
func (v *View) HasPartition(p Partition) bool { return len(v.partitions[p]) > 0 }

// Partitions returns every partition that has a worker, ordered.
func (v *View) Partitions() []Partition {
	return slices.SortedFunc(maps.Keys(v.partitions), Partition.Compare)
}

// HasGroup reports whether any worker, in whatever state, is in the group.
func (v *View) HasGroup(name string) bool {
	_, ok := v.groups[name]
	return ok
}

// PartitionOf returns the partition that serves a model, or the adapter of that
// name, in a routing group.
func (v *View) PartitionOf(groupName, model string) (Partition, bool) {
	owner, ok := v.groups[groupName].models[model]
	return Partition{Model: owner, Group: groupName}, ok
}

// SolePartition returns the partition of a group whose workers all serve one
// and the same model: there no request body is needed to know the partition.
func (v *View) SolePartition(groupName string) (Partition, bool) {
	model := v.groups[groupName].soleModel
	return Partition{Model: model, Group: groupName}, model != ""
}

// Models returns the names that a routing group serves, adapters included,
// sorted.
func (v *View) Models(groupName string) []string {
	return slices.Sorted(maps.Keys(v.groups[groupName].models))
}
