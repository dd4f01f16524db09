package routing

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/internal/tokenizer"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// Config says how requests are read and how workers are chosen. Header names are
// lower-case.
type Config struct {
	SessionHeaders []string // searched in order, the first with a value wins
	GroupHeader    string   // names the routing group; "" for none
	DefaultGroup   string   // group of a request that names none; "" means fleet.DefaultName
	ModelHeader    string   // names the model and wins over the body; "" for none
	DefaultModel   string   // model of a request that names none; "" for none
	ExplicitTarget bool     // honour a worker named by the client
	MaxBodyBytes   int64    // bound of a body after decoding; 0 means 16 MiB

	// Index and Controller tell which blocks are where. Without both, choices are
	// made by load alone.
	Index      *index.Set
	Controller *kvstate.Controller
	// Tokenizer turns prompts into tokens for partitions that have KV state. Nil:
	// only token ids in bodies count. TokenizerURL is whom it asks; "" means a live
	// worker of the partition.
	Tokenizer    *tokenizer.Client
	TokenizerURL string
	// Figures returns what a target last said of its own load. It is called for
	// each candidate of each choice: it must be quick, must not block, and must be
	// safe for concurrent use. Nil: only this replica's own requests count.
	Figures func(fleet.Target) (Figures, bool)

	// Registerer gets the metrics. Nil: they are not registered.
	Registerer prometheus.Registerer

	Weights     Weights
	Temperature float64 // 0: the cheapest target wins; above: cheap ones more often than dear ones
	Limits      Limits
}

// Router decides. Make one with NewRouter; all methods are safe for concurrent use.
type Router struct {
	cfg      Config
	live     *fleet.Live
	sessions *affinity.Resolver
	load     *load
	metrics  *metrics
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
	return &Router{cfg: cfg, live: live, sessions: sessions, load: newLoad(), metrics: newMetrics(cfg.Registerer)}
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
		return r.unpinned(ctx, wish{req: req, partition: p, group: req.Group}, NoModel)
	case req.Session == "":
		return r.withoutSession(ctx, req, p, NoSession)
	}
	table, ok := r.sessions.Table(p)
	if !ok { // more partitions than tables, or the view has just changed under us
		return r.withoutSession(ctx, req, p, TableFull)
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
			return r.withoutSession(ctx, req, p, TableFull)
		}
		if err != nil {
			return nil, refusal(err)
		}
		rt := &Route{Partition: p, Session: req.Session, router: r, lease: lease}
		if err := r.place(ctx, rt, req); err == nil {
			return rt, nil
		} else if rt.Release(affinity.NeverSent); !errors.Is(err, affinity.ErrInitialiserLost) && !errors.Is(err, errDeparted) {
			return nil, refusal(err)
		}
	}
	return nil, refusal(context.DeadlineExceeded)
}

// place gives rt its target: the bound one, or a new choice that it binds.
func (r *Router) place(ctx context.Context, rt *Route, req *Request) error {
	view := r.live.View()
	target, bound := rt.lease.Target()
	if !bound {
		return r.bind(ctx, rt, req)
	}
	if !view.IsSchedulable(rt.Partition, target) {
		return errDeparted
	}
	if !allowed(view, req, target) {
		return r.leaveForSubset(ctx, rt, req)
	}
	r.load.add(target)
	rt.occupy(picked{view: view, target: target}, Bound)
	return nil
}

// bind chooses for a session whose turn to choose rt has.
func (r *Router) bind(ctx context.Context, rt *Route, req *Request) error {
	reason := New
	if rt.lease.Moved() {
		reason = Rebound
	}
	w, reason := sessionWish(rt.Partition, req, reason)
	choice, err := r.choose(ctx, w)
	if err != nil {
		return err
	}
	rt.occupy(choice, reason)
	if err := rt.lease.Bind(choice.target); err != nil {
		return err
	}
	if bound, _ := rt.lease.Target(); bound != choice.target {
		// A replica's binding that came while this request was choosing wins.
		rt.Unload()
		return r.place(ctx, rt, req)
	}
	return nil
}

// sessionWish is what a session that has no binding wants.
func sessionWish(p fleet.Partition, req *Request, reason Reason) (wish, Reason) {
	if !req.Explicit.IsZero() {
		return wish{req: req, partition: p, target: req.Explicit}, Explicit
	}
	return wish{req: req, partition: p, byPrompt: true}, reason
}

// leaveForSubset serves a session whose worker the gateway does not allow: a
// soft binding follows the request into the subset, a hard one refuses it. A
// bound session's prompt is not read: the choice is by load.
func (r *Router) leaveForSubset(ctx context.Context, rt *Route, req *Request) error {
	choice, err := r.choose(ctx, wish{req: req, partition: rt.Partition})
	if err != nil {
		return err
	}
	rt.occupy(choice, Rebound)
	rt.Candidates = 0
	if rt.lease.Check(choice.target) != nil {
		return outsideSubset()
	}
	return rt.lease.Bind(choice.target)
}

func outsideSubset() *Error {
	return &Error{Kind: Unavailable, Reason: Subset, Message: "the session's worker is outside the gateway's subset"}
}

// unpinned routes a request that is bound to nothing.
func (r *Router) unpinned(ctx context.Context, w wish, reason Reason) (*Route, error) {
	choice, err := r.choose(ctx, w)
	if err != nil {
		return nil, err
	}
	rt := &Route{Partition: w.partition, Session: w.req.Session, router: r}
	rt.occupy(choice, reason)
	return rt, nil
}

// withoutSession routes a request that has no session, or none that can be kept:
// to the worker that it names, or else to any.
func (r *Router) withoutSession(ctx context.Context, req *Request, p fleet.Partition, reason Reason) (*Route, error) {
	w, reason, err := looseWish(r.live.View(), p, req, reason)
	if err != nil {
		return nil, err
	}
	return r.unpinned(ctx, w, reason)
}

// looseWish is what a request wants that will not be bound.
func looseWish(view *fleet.View, p fleet.Partition, req *Request, reason Reason) (wish, Reason, error) {
	if req.Explicit.IsZero() {
		return wish{req: req, partition: p, byPrompt: true}, reason, nil
	}
	if !view.IsSchedulable(p, req.Explicit) {
		return wish{}, reason, unavailable("the worker that the request names is not available")
	}
	return wish{req: req, partition: p, target: req.Explicit}, Explicit, nil
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
