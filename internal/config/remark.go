package config

import (
	"cmp"
	"fmt"
	"slices"
)

// Remarks names values that other values keep from taking effect, ordered by line.
// None of it is an error.
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
	slices.SortFunc(ps, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text)) })
	return ps
}
