package discovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"mooring/internal/agenda"
	"mooring/internal/fleet"
)

// Bounds of what reading the load may cost.
const (
	maxScrapes     = 64          // in flight
	maxMetricsPage = 4 << 20     // bytes
	scrapeTimeout  = time.Second // from dialling to the last byte
)

// ScrapeConfig says how a Scraper reads the workers' load. Path and Interval are
// required.
type ScrapeConfig struct {
	Path     string        // of the worker's metrics, in Prometheus' text format
	Interval time.Duration // from one reading of a worker to its next
	// Asking is called when a worker is going to be asked, and Said when its answer
	// is in Figures or there will be none. Run calls them, so they must be quick.
	// Nil: nobody wants to know.
	Asking, Said func(fleet.WorkerID)
	// Transport makes the requests. Nil means one of its own.
	Transport http.RoundTripper
	// Logger is told when a worker's metrics do not tell its load, and when they do
	// again. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil: they are not registered.
	Registerer prometheus.Registerer
}

// Scraper reads the load of all active workers from their metrics. Figures is
// safe for concurrent use.
type Scraper struct {
	cfg  ScrapeConfig
	live *fleet.Live

	due      agenda.Agenda[fleet.WorkerID] // owned by Run
	inFlight map[fleet.WorkerID]bool       // owned by Run; none of them is in due

	mu struct {
		sync.RWMutex
		ranks map[fleet.WorkerID][]Figures // of the workers in the view; the slices are never changed
	}
	failing map[fleet.WorkerID]bool // owned by Run: those whose failure was logged

	failures *prometheus.CounterVec // cause
}

// causeContent is an answer that holds no load figures.
const causeContent cause = "content"

// NewScraper returns a Scraper for the workers of live.
func NewScraper(live *fleet.Live, cfg ScrapeConfig) *Scraper {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	nobody := func(fleet.WorkerID) {}
	if cfg.Asking == nil {
		cfg.Asking = nobody
	}
	if cfg.Said == nil {
		cfg.Said = nobody
	}
	s := &Scraper{cfg: cfg, live: live, failing: make(map[fleet.WorkerID]bool), inFlight: make(map[fleet.WorkerID]bool)}
	s.mu.ranks = make(map[fleet.WorkerID][]Figures)
	s.failures = promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_worker_metrics_failures_total", Help: "Times a worker's load could not be read from its metrics.",
	}, []string{"cause"})
	for _, c := range []cause{causeError, causeTimeout, causeStatus, causeContent} {
		s.failures.WithLabelValues(string(c))
	}
	return s
}

// Figures returns what t's worker last said of its load: of t's rank, or of the
// whole worker if t names none. False if it has never said anything.
func (s *Scraper) Figures(t fleet.Target) (Figures, bool) {
	s.mu.RLock()
	ranks := s.mu.ranks[t.Worker]
	s.mu.RUnlock()
	switch {
	case len(ranks) == 0:
		return Figures{}, false
	case !t.Ranked:
		return together(ranks), true
	case int(t.Rank) >= len(ranks):
		return Figures{}, false
	}
	return ranks[t.Rank], true
}

// scraped is the outcome of one reading.
type scraped struct {
	id    fleet.WorkerID
	ranks []Figures
	cause cause
	err   error
}

// Run reads until ctx ends; it returns nil when all it started has ended.
func (s *Scraper) Run(ctx context.Context) error {
	transport := s.cfg.Transport
	if transport == nil {
		own := newTransport(ctx)
		defer own.CloseIdleConnections()
		transport = own
	}
	answers := make(chan scraped, maxScrapes) // room for all: nobody waits for Run
	var running sync.WaitGroup
	defer running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var known *fleet.View
	for {
		view, changed := s.live.Snapshot()
		now := time.Now()
		if view != known {
			known = view
			s.adopt(view, now)
		}
		for len(s.inFlight) < maxScrapes {
			id, _, ok := s.due.Take(now)
			if !ok {
				break
			}
			s.inFlight[id] = true
			s.cfg.Asking(id)
			w, _ := view.Worker(id) // adopt keeps only workers of the view in due
			url := "http://" + w.Address + s.cfg.Path
			running.Go(func() { answers <- scrape(ctx, transport, id, url) })
		}
		if at, ok := s.due.Next(); ok && len(s.inFlight) < maxScrapes {
			timer.Reset(at.Sub(now))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-timer.C:
		case a := <-answers:
			s.take(view, a)
			s.cfg.Said(a.id)
		}
	}
}

// adopt makes the active workers of view those that are read. The first readings
// are spread over an interval.
func (s *Scraper) adopt(view *fleet.View, now time.Time) {
	gone := func(id fleet.WorkerID) bool {
		_, ok := view.Worker(id)
		return !ok
	}
	s.mu.Lock()
	maps.DeleteFunc(s.mu.ranks, func(id fleet.WorkerID, _ []Figures) bool { return gone(id) })
	s.mu.Unlock()
	maps.DeleteFunc(s.failing, func(id fleet.WorkerID, _ bool) bool { return gone(id) })
	active := make(map[fleet.WorkerID]bool)
	for _, w := range view.Workers() {
		if !w.Schedulable() || w.Address == "" {
			continue
		}
		active[w.ID] = true
		if !s.due.Has(w.ID) && !s.inFlight[w.ID] {
			s.due.Set(w.ID, now.Add(share(w.ID, s.cfg.Interval)))
		}
	}
	s.due.RemoveIf(func(id fleet.WorkerID) bool { return !active[id] })
}

// take notes an answer. Figures that could not be renewed stay: their age tells.
func (s *Scraper) take(view *fleet.View, a scraped) {
	delete(s.inFlight, a.id)
	w, ok := view.Worker(a.id)
	if !ok {
		return
	}
	if w.Schedulable() {
		s.due.Set(a.id, time.Now().Add(s.cfg.Interval))
	}
	if a.err != nil {
		s.failures.WithLabelValues(string(a.cause)).Inc()
		if said := a.cause == causeStatus || a.cause == causeContent; said && !s.failing[a.id] { // one that does not answer is the probes' to tell
			s.failing[a.id] = true
			s.cfg.Logger.Warn("a worker's metrics do not tell its load", "worker", a.id.String(), "address", w.Address, "error", a.err)
		}
		return
	}
	if s.failing[a.id] {
		delete(s.failing, a.id)
		s.cfg.Logger.Info("a worker's metrics tell its load again", "worker", a.id.String(), "address", w.Address)
	}
	s.mu.Lock()
	s.mu.ranks[a.id] = a.ranks
	s.mu.Unlock()
}

// scrape reads one worker's metrics once.
func scrape(ctx context.Context, transport http.RoundTripper, id fleet.WorkerID, url string) scraped {
	a := scraped{id: id, cause: causeError}
	deadline := time.Now().Add(scrapeTimeout)
	ctx, cancel := context.WithDeadline(context.WithValue(ctx, deadlineKey{}, deadline), deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		a.err = err
		return a
	}
	req.Header.Set("User-Agent", "mooring")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		if a.err = err; ctx.Err() != nil {
			a.cause, a.err = causeTimeout, fmt.Errorf("no answer within %v", scrapeTimeout)
		}
		return a
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		a.cause, a.err = causeStatus, fmt.Errorf("status %d", resp.StatusCode)
		return a
	}
	page := &io.LimitedReader{R: resp.Body, N: maxMetricsPage + 1}
	if a.ranks, a.err = readFigures(page, time.Now()); a.err != nil {
		a.cause = causeContent
	}
	if page.N == 0 {
		a.cause, a.err = causeContent, fmt.Errorf("more than %d bytes of metrics", maxMetricsPage)
	}
	if ctx.Err() != nil {
		a.cause, a.err = causeTimeout, errors.New("the answer did not end in time")
	}
	return a
}
