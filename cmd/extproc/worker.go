package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"

	"mooring/internal/fleet"
	"mooring/internal/simworker"
)

func workerCommand() *cobra.Command {
	var (
		cfg              simworker.Config
		address, logging string
	)
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a simulated OpenAI-compatible worker, for demos, tests and load runs",
		Long: `Runs a worker that behaves like a vLLM server without a model, until SIGTERM or
Ctrl-C. It answers /v1/chat/completions and /v1/completions (with "stream": true as
server-sent events), /v1/embeddings, /v1/models, /health, /metrics with vLLM's names,
/tokenize and /detokenize, over HTTP/1.1 and unencrypted HTTP/2.

Its prefix cache works on blocks of tokens: usage.prompt_tokens_details.cached_tokens
of an answer shows whether a conversation came back to the worker that knows it. With
several ranks, x-data-parallel-rank chooses one; without it the least busy one serves.
Answers name the worker and the rank in x-sim-worker and x-sim-rank.

With --kv-events it publishes what its caches hold as a vLLM server does: ZMQ PUB with
the frames topic, sequence and MessagePack payload, rank i at that port plus i. With
--kv-replay a ROUTER socket repeats what was published. POST /reset_prefix_cache empties
the caches.

With --state-agent a state agent, the durable half of a KV pool, stands behind each rank:
it writes a source and an attachment record, answers status and recovery questions at
POST /kv_state/control/RANK, and publishes numbered events on a ZMQ PUB socket that the
status names. It keeps the blocks of --host-blocks when the engine is replaced.

For tests: POST /debug/echo tells the SHA-256 of what arrived, GET /debug/stream?n=10&
bytes=16&every=100ms streams, GET /debug/requests?session=ID lists what arrived, POST
/debug/engine/restart replaces the engine: empty caches, sequence numbers from 0, and the
next generation at its agent. POST /debug/agent/detach and /debug/agent/attach?worker_id=N
(both with rank=R) change what is attached, /debug/agent/fault?set=NAME what is wrong.

The log line "ready" carries the bound addresses as addr, kv_events and kv_replay.`,
		Example: `  extproc worker --listen 127.0.0.1:8000 --model llama --first-token 200ms --per-token 20ms
  curl -s http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' \
    -d '{"model":"llama","messages":[{"role":"user","content":"hello"}],"stream":true}'
  extproc worker --kv-events tcp://127.0.0.1:5557 --kv-replay tcp://127.0.0.1:5657
  extproc worker --state-agent /tmp/records --cache-owner pool-1 --host-blocks 4096`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkIdleFlags(cmd); err != nil {
				return err
			}
			return runWorker(cmd.Context(), cfg, address, logging)
		},
	}
	f := cmd.Flags()
	f.StringVar(&address, "listen", "127.0.0.1:8000", "address to serve on; port 0 takes a free one")
	f.StringVar(&logging, "log-level", "info", "debug, info, warn or error")
	workerFlags(cmd, &cfg)
	workerEventFlags(cmd, &cfg.Events)
	workerAgentFlags(cmd, &cfg.Agent)
	return cmd
}

// runWorker serves until ctx ends.
func runWorker(ctx context.Context, cfg simworker.Config, address, logging string) error {
	for name, n := range map[string]int{"ranks": cfg.Ranks, "tokens": cfg.Tokens, "block-size": cfg.BlockSize, "cache-blocks": cfg.CacheBlocks, "kv-buffer": cfg.Events.Buffer, "agent-buffer": cfg.Agent.Buffer} {
		if n < 1 {
			return usageError{fmt.Errorf("--%s %d: want 1 or more", name, n)}
		}
	}
	logger, err := newLogger(os.Stderr, logging)
	if err != nil {
		return err
	}
	ln, err := listen("--listen", address)
	if err != nil {
		return err
	}
	defer ln.Close()
	cfg.Name, cfg.Logger = ln.Addr().String(), logger
	if cfg.Agent.WorkerID == 0 {
		cfg.Agent.WorkerID = uint64(fleet.DeriveWorkerID(cfg.Name))
	}
	cfg.Agent.PublisherID = 1 + rand.Uint64N(1<<63) // room for every rank's
	cfg.Ready = func(e simworker.Endpoints) {
		at := []any{"addr", e.HTTP}
		if e.KVEvents != "" {
			at = append(at, "kv_events", e.KVEvents)
		}
		if e.KVReplay != "" {
			at = append(at, "kv_replay", e.KVReplay)
		}
		logger.Info("ready", append(at, "models", cfg.Models, "adapters", cfg.Adapters, "ranks", cfg.Ranks)...)
	}
	w, err := simworker.New(cfg)
	if err != nil {
		return usageError{err}
	}
	err = w.Serve(ctx, ln)
	logger.Info("stopped")
	return err
}
