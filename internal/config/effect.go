package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// withoutEffect lists what this release accepts and checks but does not use
// yet: whole sections end in a dot. An issue that builds a feature deletes its
// line.
func withoutEffect() []string {
	return []string{
		"workers.metrics.",
	}
}

// workerWithoutEffect is withoutEffect for the keys of one worker.
func workerWithoutEffect() []workerKey {
	return []workerKey{
		{"kv_events", func(w *WorkerSpec) bool { return w.KVEvents != "" }},
		{"kv_replay", func(w *WorkerSpec) bool { return w.KVReplay != "" }},
		{"block_size", func(w *WorkerSpec) bool { return w.BlockSize != 0 }},
	}
}

type workerKey struct {
	name  string
	isSet func(*WorkerSpec) bool
}

// restartOnly reports whether a change of the key is taken up only by a
// restart.
func restartOnly(path string) bool {
	return path != "workers.static" && path != "replication.peers" && !strings.HasPrefix(path, "workers.health.")
}

// WithoutEffect names the keys that the file sets and this release does not use
// yet, and values that other values keep from taking effect, ordered by line.
// None of it is an error.
func (c *Config) WithoutEffect() []Problem {
	ps := Problems(WorkersWithoutEffect(c.Workers.Static))
	for path := range c.lines {
		if slices.ContainsFunc(withoutEffect(), func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
			ps = append(ps, c.problem(path, noEffect))
		}
	}
	if c.Session.OnWorkerGone == WorkerGoneWait && c.Session.WaitFor > c.Request.Deadline {
		at := "session.wait_for"
		if c.lines[at] == 0 {
			at = "session.on_worker_gone"
		}
		ps = append(ps, c.problem(at, fmt.Sprintf("waiting %s ends early, at request.deadline %s; raise the deadline to wait longer",
			spell(c.Session.WaitFor), spell(c.Request.Deadline))))
	}
	if !slices.Contains(c.Replication.Publish, TopicV2) {
		ps = append(ps, c.problem("replication.publish", "v2 is published whether it is listed or not"))
	}
	if c.Replication.Listen == "" && len(c.Replication.Peers) > 0 {
		ps = append(ps, c.problem("replication.peers", "have no effect without replication.listen"))
	}
	slices.SortFunc(ps, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text)) })
	return ps
}

const noEffect = "is checked but has no effect in this release"

// WorkersWithoutEffect names the keys of a list of workers that this release
// does not use yet, each once, where the first worker that sets it is listed.
func WorkersWithoutEffect(workers []WorkerSpec) []Problem {
	var ps []Problem
	for _, k := range workerWithoutEffect() {
		i := slices.IndexFunc(workers, func(w WorkerSpec) bool { return k.isSet(&w) })
		if i >= 0 {
			ps = append(ps, workers[i].problem(k.name+" of a worker "+noEffect))
		}
	}
	return ps
}

// NeedRestart names the keys whose values differ between two configurations
// and are read only at the start, in the order of the file. The static workers,
// how workers are probed and the peers change live; so does what the workers
// file holds, but not which file that is.
func NeedRestart(old, new *Config) []string {
	var paths []string
	for _, k := range fileSchema().keys {
		if restartOnly(k.path) && !k.same(old, new) {
			paths = append(paths, k.path)
		}
	}
	return paths
}
