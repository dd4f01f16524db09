package discovery

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"mooring/internal/agenda"
	"mooring/internal/fleet"
)

// Discovery owns the fleet's live view. Make one with New; all methods are safe
// for concurrent use.
type Discovery struct {
	cfg     Config
	live    *fleet.Live
	metrics metrics
	settled chan struct{} // closed after the first round
	wake    chan struct{} // of size 1: something became due

	mu struct {
		sync.Mutex
		health  Health
		sources []*source // by name
		workers map[fleet.WorkerID]*worker

		probes    agenda.Agenda[fleet.WorkerID] // who is to be probed; whoever is being probed is not in it
		lookups   agenda.Agenda[fleet.WorkerID] // whose name is to be resolved; likewise
		deadlines agenda.Agenda[fleet.WorkerID] // whose lifecycle changes by the clock
		probing   int                           // probes in flight
		resolving int                           // lookups in flight
		spread    int                           // over how many workers probes are spread
		questions uint64                        // counts worker.question over all workers, so that none comes again

		running    bool                    // Run has begun
		firstRound map[fleet.WorkerID]bool // who was listed then and is not judged yet; nil before Run and after the round
		duplicates map[duplicate]bool      // as last merged

		changed   bool      // since the last view
		published time.Time // when the last view was
		states    []change  // of workers' states, not logged yet
		news      []news    // other things not logged yet
	}
}

// New returns a Discovery that knows nobody. It starts nothing before Run.
func New(cfg Config) *Discovery {
	cfg = cfg.withDefaults()
	d := &Discovery{
		cfg:     cfg,
		live:    fleet.NewLive(fleet.NewView(nil)),
		metrics: newMetrics(cfg.Registerer),
		settled: make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	d.mu.health = cfg.Health
	d.mu.workers = make(map[fleet.WorkerID]*worker)
	return d
}

// Live returns the fleet's live view, which changes until Run returns.
func (d *Discovery) Live() *fleet.Live { return d.live }

// Settled is closed once every worker that was listed when Run began has been
// judged: a probe passed, failed or timed out, or its name did not resolve.
// That takes at most the timeouts of one lookup and one probe, unless there are
// more workers than are probed at once. It stays open if Run ends before.
func (d *Discovery) Settled() <-chan struct{} { return d.settled }

// Update takes a source's whole answer. It may be called before Run, which then
// waits for these workers before it is settled. A Spec whose address is no
// address, and the second of two with one id, are left out, logged and counted;
// of two sources that list one id the first by name counts.
func (d *Discovery) Update(name string, specs []Spec) {
	now := time.Now()
	d.mu.Lock()
	defer d.leave()
	s := d.sourceLocked(name)
	if s.failing {
		d.metrics.sourceFailing.WithLabelValues(name).Set(0)
		d.tellLocked(slog.LevelInfo, "a source of workers answers again", slog.String("source", name))
	}
	o := s.answer(now, d.cfg.Grace, d.readLocked(name, specs))
	d.tellOpinionLocked(s, o)
	d.reconcileLocked(now)
	d.publishLocked(now)
	d.poke()
}

// SourceFailed records that a source could not answer. Its last answer stays.
// The error may be logged.
func (d *Discovery) SourceFailed(name string, err error) {
	d.mu.Lock()
	defer d.leave()
	s := d.sourceLocked(name)
	d.metrics.sourceFailures.WithLabelValues(name).Inc()
	if s.failing {
		return
	}
	s.fail()
	d.metrics.sourceFailing.WithLabelValues(name).Set(1)
	d.tellLocked(slog.LevelWarn, "a source of workers cannot answer; its workers stay",
		slog.String("source", name), slog.Int("workers", len(s.listed)+len(s.doubted)), slog.Any("error", err))
}

// SetHealth changes how workers are probed, from now on. What was found out so
// far stays. When probing is turned on, workers are taken for healthy until it
// says otherwise.
func (d *Discovery) SetHealth(h Health) {
	now := time.Now()
	h = h.withDefaults()
	d.mu.Lock()
	defer d.leave()
	old := d.mu.health
	if h == old {
		return
	}
	d.mu.health = h
	for _, w := range d.mu.workers {
		if old.off() {
			w.trust()
		}
		if w.listed {
			d.askLocked(now, w)
			d.advanceLocked(now, w)
		}
	}
	d.publishLocked(now)
	d.poke()
}

// ConnectFailed records that Envoy could not connect to a worker's address: one
// failed probe of the worker. The next probe comes sooner, so that a single
// failure is soon confirmed or taken back. Addresses that no listed worker has
// are ignored, and without probing the report is only counted: no probe could
// take its effect back.
func (d *Discovery) ConnectFailed(address string) {
	now := time.Now()
	if a, err := netip.ParseAddrPort(address); err == nil {
		address = netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()
	}
	at, ok := d.live.View().WorkerAt(address)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.leave()
	w, ok := d.mu.workers[at.ID]
	if !ok || !w.listed || w.address != address {
		return
	}
	d.failedLocked(now, w, causeReported, errReported)
	// Reports can be many: the gap bounds the probes that they cause.
	sooner := w.probed.Add(d.mu.health.Interval / 10)
	if sooner.Before(now) {
		sooner = now
	}
	d.mu.probes.Hasten(w.ID, sooner)
	d.poke()
}

// sourceLocked returns the source of that name, which it makes if need be.
func (d *Discovery) sourceLocked(name string) *source {
	i, found := slices.BinarySearchFunc(d.mu.sources, name, func(s *source, name string) int {
		return strings.Compare(s.name, name)
	})
	if !found {
		d.mu.sources = slices.Insert(d.mu.sources, i, &source{name: name})
		d.metrics.addSource(name)
	}
	return d.mu.sources[i]
}

// readLocked checks a source's answer. Without an address a worker is as good as
// not listed.
func (d *Discovery) readLocked(source string, specs []Spec) map[fleet.WorkerID]listing {
	listed := make(map[fleet.WorkerID]listing, len(specs))
	refuse := func(s Spec, why string) {
		d.metrics.refused.WithLabelValues(source).Inc()
		d.tellLocked(slog.LevelWarn, "a listed worker was left out",
			slog.String("source", source), slog.String("name", s.Address), slog.String("reason", why))
	}
	for _, s := range specs {
		l, err := newListing(s)
		if err != nil {
			refuse(s, err.Error())
			continue
		}
		if first, taken := listed[l.ID]; taken {
			refuse(s, "its id "+l.ID.String()+" is that of "+first.Address+" in the same list")
			continue
		}
		listed[l.ID] = l
	}
	return listed
}

// poke makes Run look at what is due.
func (d *Discovery) poke() {
	select {
	case d.wake <- struct{}{}:
	default: // it will look anyway
	}
}
