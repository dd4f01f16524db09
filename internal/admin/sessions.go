package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// Sessions per page of /v1/sessions.
const (
	defaultLimit = 100
	maxLimit     = affinity.MaxPage
)

// sessionJSON is one binding, as /v1/sessions lists it.
type sessionJSON struct {
	Session  string         `json:"session"`
	Model    string         `json:"model"`
	Group    string         `json:"group"`
	WorkerID fleet.WorkerID `json:"worker_id,string"`
	Rank     *uint32        `json:"dp_rank"` // null: bound to the worker, to no rank of it
	Address  string         `json:"address"` // empty: the worker is not known (any more)
	Sequence uint64         `json:"sequence,string"`
	WriterID uint64         `json:"writer_id,string"`
	Leases   int            `json:"leases"`
	IdleMS   int64          `json:"idle_ms"`
}

func newSessionJSON(view *fleet.View, e *affinity.Entry) sessionJSON {
	out := sessionJSON{
		Session: e.Session, Model: e.Partition.Model, Group: e.Partition.Group, WorkerID: e.Target.Worker,
		Sequence: e.Sequence, WriterID: e.WriterID, Leases: e.Leases, IdleMS: e.Idle.Milliseconds(),
	}
	if e.Target.Ranked {
		out.Rank = &e.Target.Rank
	}
	if w, ok := view.Worker(e.Target.Worker); ok {
		out.Address = w.Address
	}
	return out
}

func (s *server) listSessions(w http.ResponseWriter, r *http.Request) error {
	view := s.cfg.Fleet.View()
	filter, after, limit, err := readListQuery(view, r.URL.RawQuery)
	if err != nil {
		return err
	}
	entries, next := s.cfg.Sessions.List(filter, after, limit)
	out := struct {
		Sessions []sessionJSON `json:"sessions"`
		Next     string        `json:"next"`
	}{make([]sessionJSON, len(entries)), next}
	for i := range entries {
		out.Sessions[i] = newSessionJSON(view, &entries[i])
	}
	return answer(w, http.StatusOK, out)
}

// readListQuery reads what to list. A parameter that is misspelt or given twice
// is refused: ignoring it would list something else than was asked for.
func readListQuery(view *fleet.View, query string) (filter affinity.Filter, after string, limit int, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return filter, "", 0, invalid("query: %v", err)
	}
	limit = defaultLimit
	known := []string{"model", "group", "worker", "limit", "after"}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return filter, "", 0, invalid("no parameter %q; there is %s", name, strings.Join(known, ", "))
		}
		if len(given) > 1 {
			return filter, "", 0, invalid("%s is given %d times", name, len(given))
		}
	}
	filter.Model, filter.Group, after = values.Get("model"), values.Get("group"), values.Get("after")
	if text := values.Get("limit"); text != "" {
		limit, err = strconv.Atoi(text)
		if err != nil || limit < 1 || limit > maxLimit {
			return filter, "", 0, invalid("limit %q: want 1 to %d", text, maxLimit)
		}
	}
	if text := values.Get("worker"); text != "" {
		filter.Worker, err = readWorker(view, text)
	}
	return filter, after, limit, err
}

// readWorker reads a worker's id or address. An id need not be known: sessions
// can be bound to a worker that the fleet has forgotten.
func readWorker(view *fleet.View, text string) (fleet.WorkerID, error) {
	name, err := parseTarget(text)
	switch {
	case err != nil:
		return 0, err
	case name.ranked:
		return 0, invalid("worker %q: want a worker without a rank", text)
	case !name.address.IsValid():
		return name.worker, nil
	}
	w, ok := view.WorkerAt(name.address.String())
	if !ok {
		return 0, invalid("no worker is at %v; there is %s", name, listWorkers(view.Workers()))
	}
	return w.ID, nil
}
