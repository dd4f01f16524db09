package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mooring/internal/fleet"
)

// clashes reports every worker that cannot be beside an earlier one: it has its
// address, its id or one of its KV endpoints, or blocks of another size.
func clashes(workers []WorkerSpec) Problems {
	var problems Problems
	byAddress := make(map[string]*WorkerSpec, len(workers))
	byID := make(map[fleet.WorkerID]*WorkerSpec, len(workers))
	for i := range workers {
		w := &workers[i]
		// Names differ in case and in a final dot without differing in meaning.
		address := strings.ToLower(strings.Replace(w.Address, ".:", ":", 1))
		if first, taken := byAddress[address]; taken {
			problems = append(problems, w.problem(fmt.Sprintf(
				"worker %s is listed already at %s; list each address once", w.Address, first.Source)))
			continue
		}
		byAddress[address] = w
		if first, taken := byID[w.WorkerID()]; taken {
			problems = append(problems, w.problem(fmt.Sprintf(
				"worker %s has the id %s of worker %s at %s; give each its own, or leave ids out",
				w.Address, w.WorkerID(), first.Address, first.Source)))
			continue
		}
		byID[w.WorkerID()] = w
	}
	problems = append(problems, endpointClashes(workers)...)
	return append(problems, blockSizeClashes(workers)...)
}

// ports are those that a worker's ranks have for one purpose.
type ports struct {
	worker      *WorkerSpec
	key         string
	host        string
	first, last int
}

// endpointClashes reports KV endpoints that two engines, or two purposes, would
// have to share: rank i is at port + i.
func endpointClashes(workers []WorkerSpec) Problems {
	var all []ports
	for i := range workers {
		w := &workers[i]
		for key, endpoint := range map[string]string{"kv_events": w.KVEvents, "kv_replay": w.KVReplay} {
			colon := strings.LastIndexByte(endpoint, ':')
			if port, err := strconv.Atoi(endpoint[colon+1:]); err == nil && endpoint != "" {
				all = append(all, ports{w, key, strings.ToLower(endpoint[:colon]), port, port + int(w.Ranks) - 1})
			}
		}
	}
	slices.SortFunc(all, func(a, b ports) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.first, b.first), cmp.Compare(a.worker.Address, b.worker.Address), cmp.Compare(a.key, b.key))
	})
	var problems Problems
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if a.host == b.host && b.first <= a.last {
			problems = append(problems, b.worker.problem(fmt.Sprintf("%s of worker %s meets %s of worker %s at %s:%d; rank i is at port + i: choose ports that do not overlap",
				b.key, b.worker.Address, a.key, a.worker.Address, b.host, b.first)))
		}
	}
	return problems
}

// blockSizeClashes reports workers whose block size is not that of the first one
// that serves the same model in the same routing group.
func blockSizeClashes(workers []WorkerSpec) Problems {
	first := make(map[fleet.Partition]*WorkerSpec)
	var problems Problems
	for i := range workers {
		w := &workers[i]
		if w.BlockSize == 0 {
			continue
		}
		for _, model := range w.Models {
			p := fleet.Partition{Model: model, Group: w.RoutingGroup}
			if other, ok := first[p]; !ok {
				first[p] = w
			} else if other.BlockSize != w.BlockSize {
				problems = append(problems, w.problem(fmt.Sprintf("worker %s has block_size %d, worker %s of the same model %q has %d; engines of one model and group must have one",
					w.Address, w.BlockSize, other.Address, model, other.BlockSize)))
				break
			}
		}
	}
	return problems
}
