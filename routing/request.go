package routing

import (
	"errors"
	"strings"

	"mooring/internal/fleet"
)

// maxNameBytes bounds a model's or routing group's name that a client sends.
const maxNameBytes = 1024

// Request is what a decision needs to know of one HTTP request. ReadHeaders
// makes it, ReadBody completes it, Route decides on it. It belongs to one
// goroutine.
type Request struct {
	Session string // key that the session binds under; "" for no session
	Group   string // routing group
	Model   string // as the request names it (a model or an adapter); "" for none so far
	ID      string // the request's own id (x-request-id): breaks ties where there is no session

	Explicit fleet.Target // the worker that the client names; zero for none

	// Subset, if Restricted, holds the only workers that the gateway allows, in
	// ascending order: addresses as workers have them, or their part before the
	// port, which allows every port.
	Subset     []string
	Restricted bool

	unreadable error         // why the body could not be read
	bodyModel  string        // as the body names it, where the body does not decide; "" for none
	prompt     *promptFields // parts of the body; nil if it was not read for them
}

// modelName is the model or adapter that the request names, wherever it does.
func (req *Request) modelName() string {
	if req.Model != "" {
		return req.Model
	}
	return req.bodyModel
}

// ReadHeaders makes a Request from HTTP headers. values returns all values of a
// header by its lower-case name. The error is an *Error.
func (r *Router) ReadHeaders(values func(name string) []string) (Request, error) {
	who, err := readIdentity(r.cfg.SessionHeaders, values)
	if err != nil {
		return Request{}, err
	}
	req := Request{Session: who.key, Group: r.cfg.DefaultGroup}
	req.ID, _ = firstValue([]string{"x-request-id"}, values)
	if group, name := firstValue([]string{r.cfg.GroupHeader}, values); group != "" {
		if len(group) > maxNameBytes {
			return Request{}, invalid("header %s: a routing group's name has at most %d bytes", name, maxNameBytes)
		}
		req.Group = group
	}
	if r.cfg.ModelHeader != "" {
		model, name := firstValue([]string{r.cfg.ModelHeader}, values)
		if len(model) > maxNameBytes {
			return Request{}, invalid("header %s: a model's name has at most %d bytes", name, maxNameBytes)
		}
		req.Model = model
	}
	if r.cfg.ExplicitTarget {
		if req.Explicit, err = readExplicit(values); err != nil {
			return Request{}, err
		}
		if !req.Explicit.IsZero() {
			// A child that names its worker can neither be refused by its
			// group's binding nor move it: it binds under its own id.
			req.Session = who.own
		}
	}
	return req, nil
}

// NeedsBody reports whether the request's partition can only be known from its
// body: its group serves several models and no header names one.
func (r *Router) NeedsBody(req *Request) bool {
	if req.Model != "" {
		return false
	}
	view := r.live.View()
	_, sole := view.SolePartition(req.Group)
	return !sole && view.HasGroup(req.Group)
}

// WantsBody reports whether the body would make a better choice, where NeedsBody
// says that none is needed: the request opens a session, or has none, in a partition
// whose KV state is known, and goes to where most of its prompt is. A request whose
// session is bound and one that names its worker want none. Who cannot get the body
// routes without it.
func (r *Router) WantsBody(req *Request) bool {
	if r.cfg.Index == nil || !req.Explicit.IsZero() {
		return false
	}
	view := r.live.View()
	p, known, err := r.partition(view, req)
	if err != nil || !known {
		return false
	}
	if r.keeps(p, req.Session) { // as most are; in a large fleet this is by far cheaper to know than the rest
		return false
	}
	_, ok := r.residency(view, p)
	return ok
}

// keeps reports whether a session needs no choice: it is bound, or will be refused.
func (r *Router) keeps(p fleet.Partition, session string) bool {
	if session == "" {
		return false
	}
	table, ok := r.sessions.Table(p)
	if !ok {
		return false
	}
	_, bound, err := table.Query(session, fleet.Target{})
	return bound || err != nil
}

// ReadBody reads from a whole body what NeedsBody or WantsBody asked for.
// contentEncoding is the request's content-encoding header. A body that is needed
// and not valid JSON is an *Error; one whose encoding cannot be undone is not an
// error yet, since a bound session can be routed without it. What is wrong with a
// body that is only wanted leaves the choice to be made without it. body must not
// change until Route has returned.
func (r *Router) ReadBody(req *Request, contentEncoding string, body []byte) error {
	needed := r.NeedsBody(req)
	plain, err := decodeBody(contentEncoding, body, r.cfg.MaxBodyBytes)
	if err != nil {
		req.unreadable = err
		return nil
	}
	var prompt *promptFields
	if r.cfg.Index != nil {
		prompt = new(promptFields)
	}
	fields, err := readBody(plain, prompt)
	switch {
	case err != nil && !needed:
		req.unreadable = err
		return nil
	case err != nil:
		return unreadableBody(err)
	}
	req.prompt = prompt
	switch {
	case needed && fields.ModelSet:
		req.Model = fields.Model
	case !needed:
		req.bodyModel = fields.Model
	}
	return nil
}

func unreadableBody(err error) *Error {
	var wrong *bodyError
	if errors.As(err, &wrong) {
		return &Error{Kind: BadRequest, Reason: Invalid, Message: wrong.Error()}
	}
	return &Error{Kind: BadRequest, Reason: Invalid, Message: "the body cannot be read", Err: err}
}

// partition finds where the request belongs. known is false for a request that
// names no model in a group of several.
func (r *Router) partition(view *fleet.View, req *Request) (p fleet.Partition, known bool, err error) {
	if !view.HasGroup(req.Group) {
		return p, false, unavailable("no worker serves this routing group")
	}
	model := req.Model
	if model == "" {
		if sole, ok := view.SolePartition(req.Group); ok {
			return sole, true, nil
		}
		if model = r.cfg.DefaultModel; model == "" {
			return r.partitionWithoutModel(view, req)
		}
	}
	p, ok := view.PartitionOf(req.Group, model)
	if !ok {
		return p, false, &Error{Kind: UnknownModel, Reason: NoModel, Message: unknownModel(model, view.Models(req.Group))}
	}
	return p, true, nil
}

// partitionWithoutModel serves a request whose model is not known. If only its
// body's encoding stood in the way, the session's binding still tells, provided
// that it is bound for exactly one of the group's models.
func (r *Router) partitionWithoutModel(view *fleet.View, req *Request) (p fleet.Partition, known bool, err error) {
	if req.unreadable == nil {
		return p, false, nil
	}
	found := 0
	if req.Session != "" {
		for _, candidate := range view.Partitions() {
			if candidate.Group != req.Group {
				continue
			}
			if table, ok := r.sessions.Table(candidate); ok {
				if _, bound := table.Lookup(req.Session); bound {
					p, found = candidate, found+1
				}
			}
		}
	}
	if found == 1 {
		return p, true, nil
	}
	refused := &Error{Kind: BadRequest, Reason: Invalid, Message: "the model cannot be known: " + req.unreadable.Error(), Err: req.unreadable}
	if errors.Is(req.unreadable, errDecodedTooLarge) {
		refused.Kind, refused.Reason = TooBig, TooLarge
	}
	return p, false, refused
}

// unknownModel says which models there are, but never more than a screenful.
func unknownModel(model string, served []string) string {
	const most = 20
	more := ""
	if len(served) > most {
		served, more = served[:most], ", ..."
	}
	return "model " + quoted(model) + " is not served here; served: " + strings.Join(served, ", ") + more
}

func quoted(s string) string {
	const most = 128
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return `"` + s + `"`
}

func unavailable(message string) *Error {
	return &Error{Kind: Unavailable, Reason: NoWorker, Message: message}
}
