package main

import (
	"fmt"
	"sync/atomic"

	"mooring/internal/admin"
	"mooring/internal/fleet"
	"mooring/replication"
)

// readiness is what /readyz tells.
func (r *replica) readiness() admin.Readiness {
	state := admin.Readiness{Ready: true, Warnings: r.filter.Warnings(), Replication: "off"}
	select {
	case <-r.discovery.Settled():
	default:
		state.Reasons = append(state.Reasons, "starting: the workers' first probes are not through")
	}
	select {
	case <-r.kv.reconciler.Settled():
	default:
		state.Reasons = append(state.Reasons, "starting: what the workers hold in KV cache is not known yet; it is waited for 5 s at most")
	}
	if r.mesh != nil {
		state.Replication = r.mesh.state()
		state.Warnings = append(state.Warnings, r.mesh.warnings()...)
		state.Reasons = append(state.Reasons, r.notJoined()...)
	}
	select {
	case <-r.ready:
	default:
		state.Ready = false
	}
	if r.drains.Load() {
		state.Reasons = append(state.Reasons, "draining: the process was told to stop")
	}
	state.Warnings = append(state.Warnings, r.kv.warnings()...)
	state.Warnings = append(state.Warnings, r.fleetWarnings()...)
	for _, note := range []*atomic.Pointer[string]{&r.configNote, &r.workersNote} {
		if why := note.Load(); why != nil {
			state.Warnings = append(state.Warnings, *why)
		}
	}
	state.Ready = state.Ready && len(state.Reasons) == 0
	return state
}

// notJoined says why the replica may not know what its peers know.
func (r *replica) notJoined() []string {
	select {
	case <-r.ready:
	default:
		if r.mesh.state() == replication.Joining.String() {
			return []string{"joining: the peers' bindings are not here yet"}
		}
		return nil
	}
	if !r.vigil.awake() && !r.mesh.alone() || r.mesh.rejoining.Load() {
		return []string{"joining again: the process was stopped, and may have missed bindings"}
	}
	return nil
}

// fleetWarnings says what is wrong with the workers, and with what Envoy is told of
// them.
func (r *replica) fleetWarnings() (warnings []string) {
	if r.endpoints != nil {
		if w := r.endpoints.Warning(); w != "" {
			warnings = append(warnings, w)
		}
	}
	workers := r.discovery.Live().View().Workers()
	if len(workers) == 0 {
		return append(warnings, "no worker is configured: see workers.static and workers.file")
	}
	active, doubted := 0, 0
	for i := range workers {
		if workers[i].State == fleet.Active {
			active++
		}
		if workers[i].Doubted {
			doubted++
		}
	}
	if active == 0 {
		warnings = append(warnings, fmt.Sprintf("none of %d workers is active: see /v1/workers", len(workers)))
	}
	if doubted > 0 {
		warnings = append(warnings, fmt.Sprintf("%d of %d workers are listed no more; so many at once are not believed gone for workers.grace: see workers.static and workers.file", doubted, len(workers)))
	}
	return warnings
}
