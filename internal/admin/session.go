package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// maxBody bounds a body, in bytes.
const maxBody = 4096

const sessionsPrefix = "/v1/sessions/"

// isSessionPath reports whether an escaped path has the three segments that name
// a session.
func isSessionPath(path string) bool {
	rest, ok := strings.CutPrefix(path, sessionsPrefix)
	return ok && strings.Count(rest, "/") == 2
}

// named is the session that a path names.
type named struct {
	session string
	view    *fleet.View
	p       fleet.Partition
	table   *affinity.Table
}

// named reads the path of a session and finds its table. The model may be an
// adapter's name: its sessions are in the partition of its worker's first model.
func (s *server) named(r *http.Request) (named, error) {
	var segments [3]string
	for i, escaped := range strings.SplitN(strings.TrimPrefix(r.URL.EscapedPath(), sessionsPrefix), "/", len(segments)) {
		text, err := url.PathUnescape(escaped)
		if err != nil {
			return named{}, invalid("path: %v", err)
		}
		segments[i] = text
	}
	model, group, session := segments[0], segments[1], segments[2]
	if model == "" || group == "" || session == "" {
		return named{}, invalid("a session is /v1/sessions/{model}/{group}/{id}, each part percent-encoded and none empty")
	}
	if strings.Trim(session, " \t") != session {
		return named{}, invalid("no session id has spaces or tabs around it: those of requests are trimmed")
	}
	n := named{session: session, view: s.cfg.Fleet.View(), p: fleet.Partition{Model: model, Group: group}}
	if p, ok := n.view.PartitionOf(group, model); ok {
		n.p = p
	}
	table, ok := s.cfg.Sessions.Table(n.p)
	if !ok {
		return named{}, notFound("nobody serves model %q in group %q; there is %s", model, group, listPartitions(n.view))
	}
	n.table = table
	return n, nil
}

// listPartitions says which partitions there are, at most the first 50.
func listPartitions(view *fleet.View) string {
	const most = 50
	all := view.Partitions()
	if len(all) == 0 {
		return "no worker at all"
	}
	var b strings.Builder
	for i, p := range all[:min(len(all), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "model %q in group %q", p.Model, p.Group)
	}
	if more := len(all) - most; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// errNotBound does not repeat the session id: messages end up in logs.
func errNotBound(p fleet.Partition) error {
	return notFound("this session is not bound in model %q, group %q", p.Model, p.Group)
}

func (s *server) getSession(w http.ResponseWriter, r *http.Request) error {
	n, err := s.named(r)
	if err != nil {
		return err
	}
	entry, ok := n.table.Lookup(n.session)
	if !ok {
		return errNotBound(n.p)
	}
	return answer(w, http.StatusOK, newSessionJSON(n.view, &entry))
}

// putSession binds a session where the operator says: {"target":"TARGET"}.
func (s *server) putSession(w http.ResponseWriter, r *http.Request) error {
	n, err := s.named(r)
	if err != nil {
		return err
	}
	var body struct {
		Target string `json:"target"`
	}
	err = json.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxBody), &body, json.RejectUnknownMembers(true))
	if err != nil {
		return badBody(err, `the body must be {"target":"TARGET"}`, "the target is a string")
	}
	name, err := parseTarget(body.Target)
	if err != nil {
		return err
	}
	target, err := name.in(n.view, n.p)
	if err != nil {
		return err
	}
	entry, err := n.table.Pin(n.session, target)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, newSessionJSON(n.view, &entry))
}

func (s *server) deleteSession(w http.ResponseWriter, r *http.Request) error {
	n, err := s.named(r)
	if err != nil {
		return err
	}
	if !n.table.Unpin(n.session) {
		return errNotBound(n.p)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
