package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"mooring/internal/admin"
	"mooring/internal/config"
	"mooring/internal/discovery"
	"mooring/internal/fleet"
	"mooring/internal/tokenizer"
	"mooring/kvstate"
	"mooring/kvstate/index"
	"mooring/kvstate/reconcile"
	"mooring/routing"
)

// kvState is what is known of the workers' KV caches and of their load, and who
// finds it out. Choices read it.
type kvState struct {
	live       *fleet.Live
	index      *index.Set
	controller *kvstate.Controller
	reconciler *reconcile.Reconciler
	scraper    *discovery.Scraper // nil: workers are not asked for their load
	tokenizer  *tokenizer.Client  // nil: nobody turns prompts into tokens
	router     *routing.Router    // is told when they are asked for their load; set before run
}

func newKVState(cfg *config.Config, live *fleet.Live, tracing trace.TracerProvider, logger *slog.Logger, metrics prometheus.Registerer) (*kvState, error) {
	kv := &kvState{
		live:       live,
		index:      index.NewSet(index.Config{MaxBlocks: cfg.KVState.MaxBlocks, Registerer: metrics}),
		controller: kvstate.NewController(),
	}
	var err error
	kv.reconciler, err = reconcile.New(reconcile.Config{
		Live: live, Index: kv.index, Controller: kv.controller, RecordsDir: cfg.KVState.RecordsDir, BlockSize: cfg.KVState.BlockSize,
		Logger: logger, Registerer: metrics, Tracing: tracing,
	})
	if err != nil {
		return nil, fmt.Errorf("kvstate: %w", err)
	}
	if m := cfg.Workers.Metrics; m.Path != "" {
		kv.scraper = discovery.NewScraper(live, discovery.ScrapeConfig{
			Path: m.Path, Interval: m.Interval, Logger: logger, Registerer: metrics,
			Asking: func(id fleet.WorkerID) { kv.router.Asking(id) }, Said: func(id fleet.WorkerID) { kv.router.Said(id) },
		})
	}
	if t := cfg.Routing.Tokenizer; t.URL != config.TokenizerOff {
		kv.tokenizer = tokenizer.New(tokenizer.Config{Deadline: t.Deadline, Logger: logger, Registerer: metrics})
	}
	return kv, nil
}

// run returns when ctx has ended and so has all that it started.
func (kv *kvState) run(ctx context.Context) error {
	if kv.tokenizer != nil {
		defer kv.tokenizer.Close()
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return kv.reconciler.Run(ctx) })
	if kv.scraper != nil {
		g.Go(func() error { return kv.scraper.Run(ctx) })
	}
	return g.Wait()
}

// warnings says what keeps choices from being as good as they could be.
func (kv *kvState) warnings() []string {
	all := kv.reconciler.Problems()
	if kv.tokenizer == nil {
		return all
	}
	const most = 3
	silent := kv.tokenizer.LeftAlone()
	for _, endpoint := range silent[:min(len(silent), most)] {
		all = append(all, "tokenizer "+endpoint+": failed five times in a row just now, and is left alone for a while; raise routing.tokenizer.deadline if it is only slow")
	}
	if more := len(silent) - most; more > 0 {
		all = append(all, fmt.Sprintf("%d more tokenizers failed just now", more))
	}
	return all
}

// figures returns what a target last said of its load.
func (kv *kvState) figures(t fleet.Target) (routing.Figures, bool) {
	if kv.scraper == nil {
		return routing.Figures{}, false
	}
	f, ok := kv.scraper.Figures(t)
	return routing.Figures(f), ok
}

// worker tells the admin API how the KV state of one rank stands.
func (kv *kvState) worker(w kvstate.Worker) admin.KV {
	var of admin.KV
	of.State, of.Reason = kv.reconciler.Worker(w)
	worker, ok := kv.live.View().Worker(fleet.WorkerID(w.WorkerID))
	if !ok {
		return of
	}
	if ix, ok := kv.index.Partition(worker.Home()); ok {
		of.Blocks = ix.Blocks(index.Owner{Key: kvstate.WorkerKey(w), Domain: kvstate.WorkerDomain})
	}
	return of
}
