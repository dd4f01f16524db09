package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fetch reads JSON, whatever the status.
func fetch(url string, into any) (status int, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return 0, fmt.Errorf("%w in %s", err, body)
	}
	return resp.StatusCode, nil
}

// sessionRow is what tests look at in /v1/sessions.
type sessionRow struct {
	Session  string
	WorkerID string `json:"worker_id"`
	Sequence string
	WriterID string `json:"writer_id"`
	Leases   int
}

// table returns all bindings of a replica, without what is local to it.
func (r *meshReplica) table(t *testing.T) map[string]sessionRow {
	t.Helper()
	rows := make(map[string]sessionRow)
	for after := ""; ; {
		var page struct {
			Sessions []sessionRow
			Next     string
		}
		if status, err := fetch(r.admin+"/v1/sessions?limit=10000&after="+after, &page); err != nil || status != http.StatusOK {
			t.Fatalf("replica %d: status %d, %v", r.index, status, err)
		}
		for _, row := range page.Sessions {
			row.Leases = 0
			rows[row.Session] = row
		}
		if after = page.Next; after == "" {
			return rows
		}
	}
}

// peerRow is one element of /v1/peers.
type peerRow struct {
	Endpoint       string
	ReplicaID      *string `json:"replica_id"`
	Connected      bool
	LastHeard      *int64 `json:"last_heard_ms"`
	Holes          uint64
	Differing      int
	ConvergedSince *time.Time `json:"converged_since"`
}

// peer returns what a replica says of the one at an endpoint.
func (r *meshReplica) peer(t *testing.T, endpoint string) peerRow {
	t.Helper()
	var answer struct{ Peers []peerRow }
	if status, err := fetch(r.admin+"/v1/peers", &answer); err != nil || status != http.StatusOK {
		t.Fatalf("replica %d: status %d, %v", r.index, status, err)
	}
	for _, p := range answer.Peers {
		if p.Endpoint == endpoint {
			return p
		}
	}
	t.Fatalf("replica %d has no peer %s: %+v", r.index, endpoint, answer.Peers)
	return peerRow{}
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready       bool
	Reasons     []string
	Warnings    []string
	Replication string
}

func (r *meshReplica) readiness(t *testing.T) (state readiness) {
	t.Helper()
	if _, err := fetch(r.admin+"/readyz", &state); err != nil {
		t.Fatalf("replica %d: %v", r.index, err)
	}
	return state
}

func (r *meshReplica) metric(t *testing.T, name string) float64 {
	t.Helper()
	return metricAt(t, r.admin+"/metrics", name)
}

// equalTables waits until the replicas hold the same bindings, and returns them.
func (m *meshStack) equalTables(limit time.Duration, replicas ...*meshReplica) (rows map[string]sessionRow) {
	m.t.Helper()
	var difference string
	deadline := time.Now().Add(limit)
	for {
		rows, difference = replicas[0].table(m.t), ""
		for _, r := range replicas[1:] {
			difference += compareTables(rows, r.table(m.t), replicas[0].index, r.index)
		}
		switch {
		case difference == "":
			return rows
		case time.Now().After(deadline):
			m.t.Fatalf("tables differ after %v: %s", limit, difference)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func compareTables(a, b map[string]sessionRow, i, j int) string {
	missing, other := 0, 0
	for session, row := range a {
		switch got, ok := b[session]; {
		case !ok:
			missing++
		case got != row:
			other++
		}
	}
	if extra := len(b) - (len(a) - missing); missing+other+extra > 0 {
		return fmt.Sprintf("%d of replica %d are missing at %d, %d are others, %d more; ", missing, i, j, other, extra)
	}
	return ""
}

// rss returns the resident memory of a process in bytes.
func (p *process) rss() int64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kib)[0], 10, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return n << 10
		}
	}
	p.t.Fatal("no VmRSS")
	return 0
}
