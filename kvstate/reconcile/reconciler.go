package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/feed"
	"mooring/kvstate/index"
)

const (
	defaultStatusPeriod = 2 * time.Second
	publisherGrace      = time.Minute
	maxReplays          = 4               // of feeds, at once
	maxRestores         = 2               // at once
	settleLimit         = 5 * time.Second // after which nobody waits any more
)

// Config is what New needs.
type Config struct {
	// Live is the fleet: whose blocks may be used, and which configured workers
	// publish KV events. Required.
	Live *fleet.Live
	// Index gets the blocks. Nobody else may write to it. Required.
	Index *index.Set
	// Controller publishes the projection. Nobody else may publish to it. Required.
	Controller *kvstate.Controller
	// RecordsDir is the directory of discovery records; see the package comment.
	// "": there is none.
	RecordsDir string
	// BlockSize is the tokens of a block wherever a worker's configuration does not
	// say it. State of another size is refused. 0: the first engine or source of a
	// partition says it.
	BlockSize int
	// StatusPeriod is the time between two questions to an agent that is well: a
	// dead one is noticed within it. 0: 2 s.
	StatusPeriod time.Duration
	// Logger gets changes of owners, refused records and failed recoveries. nil:
	// nobody.
	Logger *slog.Logger
	// Registerer takes the metrics. nil: they are not registered.
	Registerer prometheus.Registerer
	// Tracing makes a span for each recovery. nil: there are none.
	Tracing trace.TracerProvider
}

func (c Config) withDefaults() (Config, error) {
	if c.Live == nil || c.Index == nil || c.Controller == nil {
		return c, errors.New("reconcile: Live, Index and Controller are required")
	}
	if c.StatusPeriod <= 0 {
		c.StatusPeriod = defaultStatusPeriod
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Tracing == nil {
		c.Tracing = noop.NewTracerProvider()
	}
	return c, nil
}

// Reconciler keeps the projection and the index in step with discovery, agents and
// engines. All exported methods are safe for concurrent use.
type Reconciler struct {
	cfg         Config
	metrics     *metrics
	feedMetrics *feed.Metrics
	replays     feed.ReplayLimit
	control     *control
	tracer      trace.Tracer
	restoring   chan struct{} // one for each restore under way
	settled     chan struct{} // closed when the start is over

	inputs chan func(*core) // done by the loop, one after the other
	tasks  sync.WaitGroup   // all that Run started

	mu struct {
		sync.Mutex
		core *core
	}

	// Owned by Run's loop.
	feeds    feeds
	calls    map[uint64]context.CancelFunc
	streams  map[kvstate.CacheOwnerID]context.CancelFunc
	starting *starting // nil: the start is over

	testingOnlyStepped func() // after each step; nil: nobody wants to know
}

// New returns a reconciler that knows nothing. It starts nothing before Run.
func New(cfg Config) (*Reconciler, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Reconciler{
		cfg: cfg, feedMetrics: feed.NewMetrics(cfg.Registerer), replays: feed.NewReplayLimit(maxReplays),
		control: newControl(), tracer: cfg.Tracing.Tracer("mooring/kvstate/reconcile"),
		restoring: make(chan struct{}, maxRestores), settled: make(chan struct{}), inputs: make(chan func(*core)),
		feeds:   feeds{running: make(map[kvstate.Worker]*runningFeed)},
		calls:   make(map[uint64]context.CancelFunc),
		streams: make(map[kvstate.CacheOwnerID]context.CancelFunc),
	}
	r.mu.core = newCore(fleet.NewView(nil), cfg.StatusPeriod, publisherGrace)
	r.metrics = newMetrics(cfg.Registerer, r)
	return r, nil
}

// Run reconciles until ctx ends, and returns nil when all it started has ended.
// What was projected last stays in the controller. Call it once.
func (r *Reconciler) Run(ctx context.Context) error {
	defer r.control.close()
	defer r.tasks.Wait()
	r.starting = &starting{wants: []watch{configuration}}
	if r.cfg.RecordsDir != "" {
		r.starting.wants = append(r.starting.wants, directoryWatch)
		r.tasks.Go(func() { r.watchDirectory(ctx) })
	}
	limit := time.NewTimer(settleLimit)
	defer limit.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	view, changed := r.cfg.Live.Snapshot()
	input := r.seen(view)
	for {
		if next := r.step(ctx, input, time.Now()); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case input = <-r.inputs:
		case <-timer.C:
			input = func(*core) {}
		case <-changed:
			view, changed = r.cfg.Live.Snapshot()
			input = r.seen(view)
		case <-limit.C:
			input = func(*core) { r.endStart() }
		}
	}
}

// seen is the input of a new view of the fleet.
func (r *Reconciler) seen(view *fleet.View) func(*core) {
	want := wantedFeeds(view, r.cfg.BlockSize)
	return func(c *core) {
		c.see(view)
		r.feeds.want, r.feeds.dirty = want, true
	}
}

// send has the loop take an input. It gives up when ctx ends.
func (r *Reconciler) send(ctx context.Context, input func(*core)) {
	select {
	case r.inputs <- input:
	case <-ctx.Done():
	}
}

// step takes one input, and does or starts what follows from it. It returns when
// the next step is due, zero if not before the next input.
func (r *Reconciler) step(ctx context.Context, input func(*core), now time.Time) time.Time {
	r.mu.Lock()
	c := r.mu.core
	input(c)
	var start, stop []*runningFeed
	if r.feeds.dirty {
		start, stop = r.feeds.arrange(c)
	}
	fx, next := c.settle(now)
	started := r.starting != nil && r.starting.over(c)
	r.mu.Unlock()

	for _, f := range stop {
		f.stop()
	}
	r.perform(ctx, fx)
	for _, f := range start {
		r.startFeed(ctx, f)
	}
	if started {
		r.endStart()
	}
	if r.testingOnlyStepped != nil {
		r.testingOnlyStepped()
	}
	return next
}

// watchDirectory tells the loop of the records in the directory.
func (r *Reconciler) watchDirectory(ctx context.Context) {
	refused := refusedRecords{count: r.metrics.refused, logger: r.cfg.Logger}
	d := newDirectory(r.cfg.RecordsDir, func(no refusal) { refused.add(no, time.Now()) })
	d.run(ctx, func(u update) {
		if u.lost != nil {
			r.cfg.Logger.Warn("kv state records are uncertain", "dir", r.cfg.RecordsDir, "error", u.lost)
		}
		r.send(ctx, func(c *core) { c.update(u) })
	})
}
