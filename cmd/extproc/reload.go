package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"

	"mooring/internal/config"
)

// The names under which discovery knows the two places that workers come from.
const (
	sourceStatic = "static"
	sourceFile   = "file"
)

// readWorkers tells discovery at the start who is configured.
func (r *replica) readWorkers(cfg *config.Config) error {
	workers, err := workersFile(cfg)
	if err != nil {
		return err
	}
	r.discovery.Update(sourceStatic, workerSpecs(cfg.Workers.Static))
	if cfg.Workers.File != "" {
		r.discovery.Update(sourceFile, workerSpecs(workers))
	}
	return nil
}

// workersFile reads the workers file, if there is one, and checks it against the
// static workers.
func workersFile(cfg *config.Config) ([]config.WorkerSpec, error) {
	if cfg.Workers.File == "" {
		return nil, nil
	}
	workers, err := config.LoadWorkers(cfg.Workers.File)
	if err != nil {
		return nil, err
	}
	_, err = config.MergeWorkers(cfg.Workers.Static, workers)
	return workers, err
}

// watch re-reads the configuration when its file changes or on SIGHUP, and the
// workers file when that changes.
func (r *replica) watch(ctx context.Context) error {
	if r.configPath == "" {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return config.Watch(ctx, r.configPath, r.reload) })
	if file := r.config.Load().Workers.File; file != "" {
		g.Go(func() error { return config.Watch(ctx, file, r.reloadWorkersFile) })
	}
	g.Go(func() error {
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-hangups:
				r.reload()
				r.reloadWorkersFile()
			}
		}
	})
	return g.Wait()
}

// reload puts the changed configuration in force, as far as that is possible
// without a restart. A bad file changes nothing.
func (r *replica) reload() {
	old := r.config.Load()
	fresh, err := config.Load(r.configPath)
	if err != nil {
		r.refuse(&r.configNote, "the configuration was refused; the old one stays in force", err)
		return
	}
	waiting := config.NeedRestart(r.started, fresh)
	fresh.Workers.File = old.Workers.File
	if _, err := workersFile(fresh); err != nil {
		r.refuse(&r.configNote, "the configuration was refused; the old one stays in force", err)
		return
	}
	r.config.Store(fresh)
	r.discovery.SetHealth(healthConfig(fresh))
	r.discovery.Update(sourceStatic, workerSpecs(fresh.Workers.Static))
	if r.mesh != nil {
		if err := r.mesh.transport.SetPeers(fresh.Replication.Peers); err != nil {
			r.logger.Error("the peers stay as they are", "error", err)
		}
	}
	r.configNote.Store(nil)
	if len(waiting) > 0 {
		keys := strings.Join(waiting, ", ")
		r.logger.Warn("these changed keys take effect after a restart", "keys", keys)
		r.configNote.Store(new("changed keys that take effect after a restart: " + keys))
	}
	if !sameLiveKeys(old, fresh) {
		r.logger.Info("configuration reloaded", "static_workers", len(fresh.Workers.Static), "peers", len(fresh.Replication.Peers))
	}
}

// sameLiveKeys reports whether a reload changed nothing that is in force.
func sameLiveKeys(old, fresh *config.Config) bool {
	return old.Workers.Health == fresh.Workers.Health && slices.Equal(old.Replication.Peers, fresh.Replication.Peers) &&
		slices.EqualFunc(old.Workers.Static, fresh.Workers.Static, config.WorkerSpec.Equal)
}

// reloadWorkersFile tells discovery what the workers file says now. A bad file
// changes nothing.
func (r *replica) reloadWorkersFile() {
	cfg := r.config.Load()
	if cfg.Workers.File == "" {
		return
	}
	workers, err := workersFile(cfg)
	if err != nil {
		r.refuse(&r.workersNote, "the workers file was refused; the workers stay as they are", err)
		r.discovery.SourceFailed(sourceFile, err)
		return
	}
	r.workersNote.Store(nil)
	r.discovery.Update(sourceFile, workerSpecs(workers))
	r.logger.Info("workers file read", "workers", len(workers))
}

// refuse logs each problem of a refused file as a line of its own, and keeps the
// first for /readyz.
func (r *replica) refuse(note *atomic.Pointer[string], message string, err error) {
	first, _, _ := strings.Cut(err.Error(), "\n")
	note.Store(new(message + ": " + first))
	var problems config.Problems
	if !errors.As(err, &problems) {
		r.logger.Error(message, "error", err)
		return
	}
	for _, p := range problems {
		r.logger.Error(message, "problem", p.String())
	}
}
