package routing

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// Config says how requests are read. Header names are lower-case.
type Config struct {
	SessionHeaders []string // searched in order, the first with a value wins
	GroupHeader    string   // names the routing group; "" for none
	DefaultGroup   string   // group of a request that names none; "" means fleet.DefaultName
	ModelHeader    string   // names the model and wins over the body; "" for none
	DefaultModel   string   // model of a request that names none; "" for none
	ExplicitTarget bool     // honour a worker named by the client
	MaxBodyBytes   int64    // bound of a body after decoding; 0 means 16 MiB
}

// Router decides. Make one with NewRouter; all methods are safe for concurrent use.
type Router struct {
	cfg      Config
	live     *fleet.Live
	sessions *affinity.Resolver
	load     *load
	unnamed  atomic.Uint64 // numbers the requests that carry neither session nor id
}

// NewRouter returns a Router over the fleet's live view and the session tables.
func NewRouter(live *fleet.Live, sessions *affinity.Resolver, cfg Config) *Router {
	if cfg.DefaultGroup == "" {
		cfg.DefaultGroup = fleet.DefaultName
	}
	if cfg.MaxBodyBytes == 0 {
		cfg.MaxBodyBytes = 16 << 20
	}
	return &Router{cfg: cfg, live: live, sessions: sessions, load: newLoad()}
}

// Live returns how many requests that this replica routed to t are live.
func (r *Router) Live(t fleet.Target) int { return r.load.of(t) }

// Route decides where req goes. ctx bounds all waiting and carries the deadline.
// The caller owns the Route and must Release it, however the request ends. The
// error is an *Error.
func (r *Router) Route(ctx context.Context, req *Request) (*Route, error) {
	view := r.live.View()
	p, known, err := r.partition(view, req)
	if err != nil {
		return nil, err
	}
	if err := checkExplicit(view, p, known, req); err != nil {
		return nil, err
	}
	switch {
	case !known:
		return r.unpinned(req, p, view.SchedulableInGroup(req.Group), NoModel)
	case req.Session == "":
		return r.withoutSession(req, p, NoSession)
	}
	table, ok := r.sessions.Table(p)
	if !ok { // more partitions than tables, or the view has just changed under us
		return r.withoutSession(req, p, TableFull)
	}
	return r.pinned(ctx, table, req, p)
}

// errDeparted says that a bound worker left after the session table had found
// it alive.
var errDeparted = errors.New("the bound worker has gone")

// pinned routes a request by its session.
func (r *Router) pinned(ctx context.Context, table *affinity.Table, req *Request, p fleet.Partition) (*Route, error) {
	// Trying again helps if this request lost its turn to choose (somebody else
	// has bound the session meanwhile, or is about to) and if the worker left in
	// between.
	const attempts = 3
	for range attempts {
		lease, err := table.Acquire(ctx, req.Session, req.Explicit)
		if errors.Is(err, affinity.ErrFull) {
			return r.withoutSession(req, p, TableFull)
		}
		if err != nil {
			return nil, refusal(err)
		}
		rt := &Route{Partition: p, Session: req.Session, router: r, lease: lease}
		if err := r.place(rt, req); err == nil {
			return rt, nil
		} else if rt.Release(affinity.NeverSent); !errors.Is(err, affinity.ErrInitialiserLost) && !errors.Is(err, errDeparted) {
			return nil, refusal(err)
		}
	}
	return nil, refusal(context.DeadlineExceeded)
}

// place gives rt its target: the bound one, or a new choice that it binds.
func (r *Router) place(rt *Route, req *Request) error {
	view := r.live.View()
	target, bound := rt.lease.Target()
	if !bound {
		return r.bind(rt, req, view)
	}
	if !view.IsSchedulable(rt.Partition, target) {
		return errDeparted
	}
	if !allowed(view, req, target) {
		return r.leaveForSubset(rt, req, view)
	}
	r.load.add(target)
	rt.occupy(view, target, Bound)
	return nil
}

// bind chooses for a session whose turn to choose rt has.
func (r *Router) bind(rt *Route, req *Request, view *fleet.View) error {
	reason, candidates := New, view.Schedulable(rt.Partition)
	switch {
	case !req.Explicit.IsZero():
		reason, candidates = Explicit, []fleet.Target{req.Explicit}
	case rt.lease.Moved():
		reason = Rebound
	}
	target, err := r.choose(view, req, candidates)
	if err != nil {
		return err
	}
	rt.Candidates = len(candidates)
	rt.occupy(view, target, reason)
	if err := rt.lease.Bind(target); err != nil {
		return err
	}
	if bound, _ := rt.lease.Target(); bound != target {
		// A replica's binding that came while this request was choosing wins.
		rt.Unload()
		return r.place(rt, req)
	}
	return nil
}

// leaveForSubset serves a session whose worker the gateway does not allow: a
// soft binding follows the request into the subset, a hard one refuses it.
func (r *Router) leaveForSubset(rt *Route, req *Request, view *fleet.View) error {
	target, err := r.choose(view, req, view.Schedulable(rt.Partition))
	if err != nil {
		return err
	}
	rt.occupy(view, target, Rebound)
	if rt.lease.Check(target) != nil {
		return &Error{Kind: Unavailable, Reason: Subset, Message: "the session's worker is outside the gateway's subset"}
	}
	return rt.lease.Bind(target)
}

// unpinned routes a request that is bound to nothing.
func (r *Router) unpinned(req *Request, p fleet.Partition, candidates []fleet.Target, reason Reason) (*Route, error) {
	view := r.live.View()
	target, err := r.choose(view, req, candidates)
	if err != nil {
		return nil, err
	}
	rt := &Route{Partition: p, Session: req.Session, Candidates: len(candidates), router: r}
	rt.occupy(view, target, reason)
	return rt, nil
}

// withoutSession routes a request that has no session, or none that can be kept:
// to the worker that it names, or else to any.
func (r *Router) withoutSession(req *Request, p fleet.Partition, reason Reason) (*Route, error) {
	view := r.live.View()
	if req.Explicit.IsZero() {
		return r.unpinned(req, p, view.Schedulable(p), reason)
	}
	if !view.IsSchedulable(p, req.Explicit) {
		return nil, unavailable("the worker that the request names is not available")
	}
	return r.unpinned(req, p, []fleet.Target{req.Explicit}, Explicit)
}

// choose picks the least loaded of the candidates that the gateway allows and
// counts the request on it.
func (r *Router) choose(view *fleet.View, req *Request, candidates []fleet.Target) (fleet.Target, error) {
	if len(candidates) == 0 {
		return fleet.Target{}, unavailable("no worker can take this request now")
	}
	if req.Restricted {
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(t fleet.Target) bool { return !allowed(view, req, t) })
	}
	key := req.Session
	if key == "" {
		key = req.ID
	}
	if key == "" {
		key = strconv.FormatUint(r.unnamed.Add(1), 10)
	}
	target, ok := r.load.leastLoaded(key, candidates)
	if !ok {
		return fleet.Target{}, &Error{Kind: Unavailable, Reason: Subset, Message: "no worker of the gateway's subset can take this request"}
	}
	return target, nil
}

// allowed reports whether the gateway's subset, if there is one, has t's worker.
func allowed(view *fleet.View, req *Request, t fleet.Target) bool {
	if !req.Restricted {
		return true
	}
	w, ok := view.Worker(t.Worker)
	if !ok {
		return false
	}
	if _, named := slices.BinarySearch(req.Subset, w.Address); named {
		return true
	}
	host, _, err := net.SplitHostPort(w.Address)
	_, named := slices.BinarySearch(req.Subset, host)
	return err == nil && named
}

// checkExplicit refuses a named target that does not exist where the request
// belongs. Whether it may be used now is for the session table and for choose.
func checkExplicit(view *fleet.View, p fleet.Partition, known bool, req *Request) error {
	if req.Explicit.IsZero() {
		return nil
	}
	if !known {
		return invalid("a request that names its worker must name its model too")
	}
	for _, w := range view.Members(p) {
		if w.Has(req.Explicit) {
			return nil
		}
	}
	return invalid("the worker or rank that the request names does not serve this model here")
}

// retryAfter is what a client is told when its worker may come back soon.
const retryAfter = time.Second

// refusal turns what the session table or place said into an *Error.
func refusal(err error) *Error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, affinity.ErrConflict):
		return &Error{Kind: Conflict, Reason: Explicit, Message: "the session is bound to another worker than the request names", Err: err}
	case errors.Is(err, affinity.ErrWorkerGone):
		return &Error{Kind: Unavailable, Reason: WorkerGone, Message: "the session's worker is gone", RetryAfter: retryAfter, Err: err}
	case errors.Is(err, affinity.ErrInvalidSession):
		return &Error{Kind: BadRequest, Reason: Invalid, Message: "a session id is 1 to 256 bytes of UTF-8", Err: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Error{Kind: TimedOut, Reason: Deadline, Message: "no worker was found in time", RetryAfter: retryAfter, Err: err}
	default:
		return &Error{Kind: Unavailable, Reason: NoWorker, Message: "the request cannot be routed now", Err: err}
	}
}
