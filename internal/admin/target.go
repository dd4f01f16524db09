package admin

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"mooring/internal/fleet"
)

// targetName is how a person names a target: a worker by its id or by its
// address, and perhaps one of its ranks.
type targetName struct {
	worker  fleet.WorkerID // 0 if named by address
	address netip.AddrPort // valid if named by address
	rank    uint32
	ranked  bool
}

// parseTarget reads TARGET:
//
//	worker_id       5244519052077252674
//	worker_id:rank  5244519052077252674:1
//	ip:port[:rank]  10.0.0.7:8000, 10.0.0.7:8000:1
//	[v6]:port[:rank]
//
// An address always has its port, so a third number can only be a rank.
func parseTarget(s string) (targetName, error) {
	var (
		t     targetName
		rest  string
		found bool
		err   error
	)
	if host, after, isAddress := cutHost(s); isAddress {
		port := ""
		port, rest, found = strings.Cut(after, ":")
		if t.address, err = netip.ParseAddrPort(host + ":" + port); err != nil || t.address.Addr().Zone() != "" {
			return targetName{}, badTarget(s)
		}
		t.address = netip.AddrPortFrom(t.address.Addr().Unmap(), t.address.Port())
	} else {
		id := ""
		id, rest, found = strings.Cut(s, ":")
		if t.worker, err = fleet.ParseWorkerID(id); err != nil {
			return targetName{}, badTarget(s)
		}
	}
	if !found {
		return t, nil
	}
	rank, err := strconv.ParseUint(rest, 10, 32)
	if err != nil {
		return targetName{}, badTarget(s)
	}
	t.rank, t.ranked = uint32(rank), true
	return t, nil
}

// cutHost splits "host:rest" if what comes first is an IP address, in brackets
// if it is of version 6, rather than a worker id.
func cutHost(s string) (host, rest string, ok bool) {
	if strings.HasPrefix(s, "[") {
		end := strings.Index(s, "]:")
		if end < 0 {
			return "", "", false
		}
		return s[:end+1], s[end+2:], true
	}
	host, rest, _ = strings.Cut(s, ":")
	return host, rest, strings.Contains(host, ".")
}

func badTarget(s string) error {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	return invalid("target %q: want worker_id[:rank], ip:port[:rank] or [v6]:port[:rank]", s)
}

// String returns the form that parseTarget reads.
func (t targetName) String() string {
	s := t.worker.String()
	if t.address.IsValid() {
		s = t.address.String()
	}
	if t.ranked {
		s += ":" + strconv.FormatUint(uint64(t.rank), 10)
	}
	return s
}

// in returns the target that t names in a partition, or a refusal that lists
// what there is.
func (t targetName) in(view *fleet.View, p fleet.Partition) (fleet.Target, error) {
	members := view.Members(p)
	for _, w := range members {
		if t.address.IsValid() {
			if at, ok := view.WorkerAt(t.address.String()); !ok || at != w {
				continue
			}
		} else if t.worker != w.ID {
			continue
		}
		target := fleet.WorkerOnly(w.ID)
		if t.ranked {
			target = fleet.OnRank(w.ID, t.rank)
		}
		if !w.Has(target) {
			return fleet.Target{}, unknownTarget("worker %v has no rank %d; there is %s", w.ID, t.rank, ranksOf(w))
		}
		return target, nil
	}
	return fleet.Target{}, unknownTarget("no worker %v serves model %q in group %q; there is %s", t, p.Model, p.Group, listWorkers(members))
}

// listWorkers says which workers there are, at most the first 50.
func listWorkers(workers []*fleet.Worker) string {
	const most = 50
	if len(workers) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, w := range workers[:min(len(workers), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%v (%s, %v, %s)", w.ID, w.Address, w.State, ranksOf(w))
	}
	if more := len(workers) - most; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

func ranksOf(w *fleet.Worker) string {
	if w.Ranks == 1 {
		return "rank 0"
	}
	return fmt.Sprintf("ranks 0 to %d", w.Ranks-1)
}
