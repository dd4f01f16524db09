package simworker

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"
)

// Limits of the configuration, so that a mistyped flag is an error and not a
// process that eats the machine.
const (
	maxNames       = 1024
	maxRanks       = 1024
	maxBlockSize   = 1 << 16
	maxCacheBlocks = 1 << 24
)

// defaultContext is the longest context of a worker whose cache could hold
// more, in tokens.
const defaultContext = 131072

// Config describes one simulated worker. The zero value is valid.
type Config struct {
	// Name tells workers apart in response headers and ids. Default "sim".
	Name string
	// Models are the names the worker answers to. As in vLLM they are aliases
	// of one model that share one cache; the first is the primary one, which
	// labels the metrics. Default ["default"].
	Models []string
	// Adapters are the LoRA adapters the worker serves under their own names.
	// An adapter's blocks match only requests for the same adapter.
	Adapters []string
	// Ranks is the number of data-parallel ranks, each with its own cache and
	// queue. Default 1.
	Ranks int
	// FirstToken is the time from the start of a request to its first token
	// when nothing of its prompt is cached, whatever its length. A cached share
	// of the prompt takes the same share off, down to a tenth. Default 0.
	FirstToken time.Duration
	// PerToken is the time from one generated token to the next. Default 0.
	PerToken time.Duration
	// Tokens is how many tokens are generated for a request without
	// max_tokens; one with max_tokens gets exactly that many. Default 16.
	Tokens int
	// BlockSize is the number of tokens in a cache block. Default 16.
	BlockSize int
	// CacheBlocks is the number of blocks of each rank, shared by running
	// requests and the prefix cache. It also bounds the context: max_model_len
	// is CacheBlocks*BlockSize, at most 131072. Default 4096.
	CacheBlocks int
	// HostBlocks is the number of blocks of each rank's pool in host memory, to
	// which full blocks are copied and from which prompts are loaded. Its events
	// carry the ownership "kvcr". Default 0: no such pool, but as many as
	// CacheBlocks with a state agent, which is there for it.
	HostBlocks int
	// Events says whether and how the changes of the caches are published.
	Events KVEvents
	// Agent says whether a state agent stands behind each rank.
	Agent StateAgent
	// FailRate is the share of generation and embedding requests answered with
	// status 500, from 0 to 1, spread evenly and not randomly: with 0.25 every
	// fourth request fails. Default 0.
	FailRate float64
	// MaxBodyBytes bounds a request body; a longer one is answered with 413.
	// Default 64 MiB.
	MaxBodyBytes int64
	// Drain bounds how long Serve lets running requests finish after its
	// context has ended. Default 30s.
	Drain time.Duration
	// Ready is called once by Serve, when everything is bound. Nil: nobody.
	Ready func(Endpoints)
	// Logger receives one debug line a request. Nil discards.
	Logger *slog.Logger
}

// withDefaults fills what is unset and returns every mistake at once.
func (c Config) withDefaults() (Config, error) {
	if c.Name == "" {
		c.Name = "sim"
	}
	if len(c.Models) == 0 {
		c.Models = []string{"default"}
	}
	setDefault(&c.Ranks, 1)
	setDefault(&c.Tokens, 16)
	setDefault(&c.BlockSize, 16)
	setDefault(&c.CacheBlocks, 4096)
	setDefault(&c.MaxBodyBytes, 64<<20)
	setDefault(&c.Drain, 30*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Ready == nil {
		c.Ready = func(Endpoints) {}
	}
	if c.Agent.Dir != "" {
		setDefault(&c.Events.Endpoint, "tcp://127.0.0.1:0")
		setDefault(&c.HostBlocks, c.CacheBlocks)
	}
	var events, agent error
	c.Events, events = c.Events.withDefaults()
	c.Agent, agent = c.Agent.withDefaults(c.Name)
	return c, errors.Join(c.checkNames(), c.checkNumbers(), events, agent)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) checkNames() error {
	var errs []error
	if strings.ContainsFunc(c.Name, notHeaderText) || len(c.Name) > 128 {
		errs = append(errs, fmt.Errorf("name %q: must be printable ASCII without blanks, at most 128 bytes", c.Name))
	}
	if len(c.Models)+len(c.Adapters) > maxNames {
		errs = append(errs, fmt.Errorf("models and adapters: at most %d", maxNames))
	}
	seen := make(map[string]bool)
	for _, names := range [][]string{c.Models, c.Adapters} {
		for _, name := range names {
			if name == "" {
				errs = append(errs, errors.New("models and adapters: a name is empty"))
			} else if seen[name] {
				errs = append(errs, fmt.Errorf("models and adapters: %q is there twice", name))
			}
			seen[name] = true
		}
	}
	return errors.Join(errs...)
}

// notHeaderText reports whether a rune may not stand in Config.Name, which
// becomes a header value and a part of response ids.
func notHeaderText(r rune) bool { return r <= ' ' || r > '~' }

func (c Config) checkNumbers() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Ranks >= 1 && c.Ranks <= maxRanks, "ranks %d: must be 1 to %d", c.Ranks, maxRanks)
	check(c.FirstToken >= 0, "first token %v: must not be negative", c.FirstToken)
	check(c.PerToken >= 0, "per token %v: must not be negative", c.PerToken)
	check(c.BlockSize >= 1 && c.BlockSize <= maxBlockSize, "block size %d: must be 1 to %d", c.BlockSize, maxBlockSize)
	check(c.CacheBlocks >= 1 && c.CacheBlocks <= maxCacheBlocks, "cache blocks %d: must be 1 to %d", c.CacheBlocks, maxCacheBlocks)
	check(c.HostBlocks >= 0 && c.HostBlocks <= maxCacheBlocks, "host blocks %d: must be 0 to %d", c.HostBlocks, maxCacheBlocks)
	check(c.Tokens >= 1 && c.Tokens < c.maxModelLen(), "tokens %d: must be 1 to %d, which is less than the cache holds", c.Tokens, c.maxModelLen()-1)
	check(!math.IsNaN(c.FailRate) && c.FailRate >= 0 && c.FailRate <= 1, "fail rate %v: must be 0 to 1", c.FailRate)
	check(c.MaxBodyBytes > 0, "max body bytes %d: must be positive", c.MaxBodyBytes)
	check(c.Drain > 0, "drain %v: must be positive", c.Drain)
	return errors.Join(errs...)
}

// maxModelLen is the longest context, prompt and reply, in tokens.
func (c Config) maxModelLen() int {
	return min(c.CacheBlocks*c.BlockSize, defaultContext)
}
