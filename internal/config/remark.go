package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
)

// Remarks names values that other values keep from taking effect, a directory that
// is yet to come, and listeners that anybody may reach, ordered by line. None of it
// is an error.
func (c *Config) Remarks() []Problem {
	var ps Problems
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
	if l := c.Routing.Limits; c.Workers.Metrics.Path == "" && (l.WaitingRequests > 0 || l.KVUse > 0) {
		ps = append(ps, c.problem("routing.limits", "waiting_requests and kv_use have no effect without workers.metrics.path"))
	}
	if t := c.Routing.Tokenizer; t.URL != TokenizerOff && t.Deadline > c.Request.Deadline {
		ps = append(ps, c.problem("routing.tokenizer.deadline", fmt.Sprintf("waiting %s ends early, at request.deadline %s; a tokenizer is to take a part of that at most",
			spell(t.Deadline), spell(c.Request.Deadline))))
	}
	if dir := c.KVState.RecordsDir; errors.Is(unwatchable(dir), fs.ErrNotExist) {
		ps = append(ps, c.problem("kvstate.records_dir", dir+" is not there yet; its records count once it is"))
	}
	ps = append(ps, c.openDoors()...)
	for i := range c.Workers.Static {
		if w := &c.Workers.Static[i]; w.KVReplay != "" && w.KVEvents == "" {
			ps = append(ps, w.problem("kv_replay of worker "+w.Address+" has no effect without kv_events"))
		}
	}
	slices.SortFunc(ps, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text)) })
	return ps
}

// openDoors names listeners that other machines can reach and that ask nobody who
// they are.
func (c *Config) openDoors() []Problem {
	var ps []Problem
	if reachable(c.Listen.Admin) {
		ps = append(ps, c.problem("listen.admin", "whoever reaches it can read and change sessions; keep it on loopback, or behind something that asks who they are"))
	}
	if mesh := strings.TrimPrefix(c.Replication.Listen, tcpScheme); reachable(mesh) && c.Replication.KeyFile == "" {
		ps = append(ps, c.problem("replication.listen", "whoever reaches it is believed; set replication.key_file, or let only the peers reach it"))
	}
	return ps
}

// reachable reports whether an address is one that other machines can reach. Names
// are taken for such.
func reachable(address string) bool {
	at, wrong := parseHostPort(address, "")
	if wrong != "" || at.host == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(at.host)
	return err != nil || !ip.IsLoopback()
}
