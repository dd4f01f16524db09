package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

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

For tests: POST /debug/echo tells the SHA-256 of what arrived, GET /debug/stream?n=10&
bytes=16&every=100ms streams, GET /debug/requests?session=ID lists what arrived.

The log line "ready" carries the bound address as addr.`,
		Example: `  extproc worker --listen 127.0.0.1:8000 --model llama --first-token 200ms --per-token 20ms
  curl -s http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' \
    -d '{"model":"llama","messages":[{"role":"user","content":"hello"}],"stream":true}'`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for name, n := range map[string]int{"ranks": cfg.Ranks, "tokens": cfg.Tokens, "block-size": cfg.BlockSize, "cache-blocks": cfg.CacheBlocks} {
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
			w, err := simworker.New(cfg)
			if err != nil {
				return usageError{err}
			}
			logger.Info("ready", "addr", ln.Addr().String(), "models", cfg.Models, "adapters", cfg.Adapters, "ranks", cfg.Ranks)
			err = w.Serve(cmd.Context(), ln)
			logger.Info("stopped")
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&address, "listen", "127.0.0.1:8000", "address to serve on; port 0 takes a free one")
	f.StringArrayVar(&cfg.Models, "model", []string{"default"}, "name of the model; repeat for aliases, the first is the primary one")
	f.StringArrayVar(&cfg.Adapters, "adapter", nil, "name of a LoRA adapter; repeatable")
	f.IntVar(&cfg.Ranks, "ranks", 1, "data-parallel ranks, each with its own cache")
	f.DurationVar(&cfg.FirstToken, "first-token", 50*time.Millisecond, "time to the first token of a prompt that is not cached at all")
	f.DurationVar(&cfg.PerToken, "per-token", 5*time.Millisecond, "time from one token to the next")
	f.IntVar(&cfg.Tokens, "tokens", 16, "tokens generated for a request without max_tokens")
	f.IntVar(&cfg.BlockSize, "block-size", 16, "tokens in a cache block")
	f.IntVar(&cfg.CacheBlocks, "cache-blocks", 4096, "blocks of each rank's cache")
	f.Float64Var(&cfg.FailRate, "fail-rate", 0, "share of requests answered with 500, from 0 to 1, evenly spread")
	f.StringVar(&logging, "log-level", "info", "debug, info, warn or error")
	return cmd
}
