package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mooring/internal/simworker"
)

// workerFlags are the flags of the simulated model and its cache.
func workerFlags(cmd *cobra.Command, cfg *simworker.Config) {
	f := cmd.Flags()
	f.StringArrayVar(&cfg.Models, "model", []string{"default"}, "name of the model; repeat for aliases, the first is the primary one")
	f.StringArrayVar(&cfg.Adapters, "adapter", nil, "name of a LoRA adapter; repeatable")
	f.IntVar(&cfg.Ranks, "ranks", 1, "data-parallel ranks, each with its own cache")
	f.DurationVar(&cfg.FirstToken, "first-token", 50*time.Millisecond, "time to the first token of a prompt that is not cached at all")
	f.DurationVar(&cfg.PerToken, "per-token", 5*time.Millisecond, "time from one token to the next")
	f.IntVar(&cfg.Tokens, "tokens", 16, "tokens generated for a request without max_tokens")
	f.IntVar(&cfg.BlockSize, "block-size", 16, "tokens in a cache block")
	f.IntVar(&cfg.CacheBlocks, "cache-blocks", 4096, "blocks of each rank's cache")
	f.IntVar(&cfg.HostBlocks, "host-blocks", 0, "blocks of each rank's pool in host memory, which outlives the engine; 0 is none, but with --state-agent as many as --cache-blocks")
	f.Float64Var(&cfg.FailRate, "fail-rate", 0, "share of requests answered with 500, from 0 to 1, evenly spread")
}

// workerEventFlags are the flags of the KV events and their replay.
func workerEventFlags(cmd *cobra.Command, kv *simworker.KVEvents) {
	f := cmd.Flags()
	f.StringVar(&kv.Endpoint, "kv-events", "", "publish KV events at tcp://HOST:PORT, rank i at PORT+i; port 0 takes free ones; empty is none")
	f.StringVar(&kv.Replay, "kv-replay", "", "answer replay requests at tcp://HOST:PORT, rank i at PORT+i; port 0 takes free ones; empty is none")
	f.StringVar(&kv.Topic, "kv-topic", "", "first frame of every KV event message")
	f.TextVar(&kv.Format, "kv-format", simworker.EventMaps, "form of the events: map as vLLM has it now, array with all fields, array-short as the oldest")
	f.TextVar(&kv.Hashes, "kv-hash", simworker.HashUnsigned, "form of the block hashes: int, signed (the same 64 bits), bytes (32 of them)")
	f.TextVar(&kv.Salt, "kv-salt", simworker.SaltTagged, "form of a cache_salt in the events: tagged as Dynamo has it, bare as vLLM passes it on")
	f.IntVar(&kv.Buffer, "kv-buffer", 10000, "batches of each rank that can be replayed")
	f.IntVar(&kv.DropEvery, "kv-drop", 0, "withhold every N-th batch from the subscribers, but not from the replay; 0 withholds none")
	f.IntVar(&kv.ReplayFrames, "kv-replay-frames", 3, "frames of a replayed message: 3, or 4 with the topic")
	f.DurationVar(&kv.ReplayDelay, "kv-replay-delay", 0, "time from a replay request to its answer")
	f.TextVar(&kv.ReplayFault, "kv-replay-fault", simworker.ReplayFine, "what is wrong with replays: none, silent, no-end (without the end marker), endless (over and over)")
}

// workerAgentFlags are the flags of the state agents.
func workerAgentFlags(cmd *cobra.Command, agent *simworker.StateAgent) {
	f := cmd.Flags()
	f.StringVar(&agent.Dir, "state-agent", "", "run a state agent behind each rank, and write its discovery records to DIR/TOPIC/ID.json; empty is none")
	f.StringVar(&agent.CacheOwner, "cache-owner", "", "name of the KV pool behind the agents; a process with the same name takes its records over (default the bound address)")
	f.Uint64Var(&agent.WorkerID, "worker-id", 0, "id of this worker in the agents' records; 0 is the one Mooring derives from the bound address")
	f.IntVar(&agent.Buffer, "agent-buffer", 4096, "last events of each agent that can be recovered as a range")
	f.IntVar(&agent.DropEvery, "agent-drop", 0, "withhold every N-th batch of an agent's live events; 0 withholds none")
	f.TextVar(&agent.Fault, "agent-fault", simworker.AgentFine, "what is wrong with the agents: none, late (answers), generation (a wrong one stated), identity (recoveries of another publisher), behind (never at the barrier)")
	f.DurationVar(&agent.Delay, "agent-delay", 6*time.Second, "how late answers are with --agent-fault late")
}

// checkIdleFlags refuses flags that have no effect without another one.
func checkIdleFlags(cmd *cobra.Command) error {
	var err error
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch name := f.Name; {
		case (strings.HasPrefix(name, "agent-") || name == "cache-owner" || name == "worker-id") && !given("state-agent"):
			err = usageError{fmt.Errorf("--%s has no effect without --state-agent", name)}
		case strings.HasPrefix(name, "kv-replay-") && !given("kv-replay"):
			err = usageError{fmt.Errorf("--%s has no effect without --kv-replay", name)}
		case strings.HasPrefix(name, "kv-") && name != "kv-events" && !given("kv-events") && !given("state-agent"):
			err = usageError{fmt.Errorf("--%s has no effect without --kv-events", name)}
		}
	})
	return err
}
