package feed

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"mooring/internal/zmqsock"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// Config is all a Feed needs. Endpoint, Worker, Owner, Index and PublisherID
// are required; every other zero field means its default.
type Config struct {
	// Endpoint is the engine's publisher of this rank, "tcp://HOST:PORT" (rank i
	// publishes at the port of rank 0 plus i). Nothing else is ever dialled.
	Endpoint string
	// Replay is the engine's replay socket of this rank, in the same form. "":
	// gaps cannot be repaired.
	Replay string
	// Topic is what the engine publishes under. "": whatever the first batch of
	// a connection has. Batches of another topic are dropped: they are of
	// another engine, behind the same address. If Topic is "", those of a topic
	// that names another worker's address are dropped as well.
	Topic string
	// Address returns where the worker is now; the zero value: not known. Nil:
	// nobody knows, and no topic is doubted.
	Address func() netip.AddrPort
	// Neighbour reports whether another worker is at an address; with port 0, at
	// any port of that host. Required beside Address. Neither may block.
	Neighbour func(netip.AddrPort) bool
	// Worker and Owner are whose blocks these are: the engine's own under
	// Worker, those of the cache-owner domain under Owner.
	Worker kvstate.Worker
	Owner  kvstate.CacheOwnerID
	// Index takes the blocks. Nobody else may write for Worker or Owner.
	Index *index.Index
	// BlockSize in tokens, if configured; 0: the index's, or that of the first
	// store if the index has none yet.
	BlockSize int
	// PublisherID is this feed's as a state agent; a new Feed gets a new one.
	PublisherID uint64
	// Control and KVStateEndpoint are advertised as they are; nothing here uses
	// them.
	Control         kvstate.Instance
	KVStateEndpoint kvstate.EndpointID
	// Replays bounds the replays that run at once, shared by all feeds that get
	// the same one. Nil: no bound.
	Replays ReplayLimit
	// MaxPayload bounds one batch, in bytes. A larger one ends the connection,
	// and makes a gap. Default 8 MiB.
	MaxPayload int
	// ReplayTimeout bounds one replay; what it brought is kept, and the next
	// goes on from there. Default 30 s.
	ReplayTimeout time.Duration
	// AnswerTimeout is how long the first batch of a replay may take. Default
	// 5 s. Each later one may take half of it.
	AnswerTimeout time.Duration
	// Changed is told that Attachment, Status (but for its cursor) or Details
	// (but for its counts) became another. It must not block. Nil: nobody.
	Changed func()
	// Name is the worker's name in metrics and logs, from the configuration.
	// Default: the worker's id.
	Name string
	// Metrics counts. Nil: nobody.
	Metrics *Metrics
	// Logger gets connections, gaps and restarts. Nil: nobody.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Index == nil:
		return c, errors.New("feed: no index")
	case c.PublisherID == 0:
		return c, errors.New("feed: publisher id is 0")
	case c.Address != nil && c.Neighbour == nil:
		return c, errors.New("feed: Address without Neighbour")
	case c.BlockSize < 0 || c.BlockSize > maxBlockSize:
		return c, fmt.Errorf("feed: block size %d, want 0 (learn it) to %d", c.BlockSize, maxBlockSize)
	case c.MaxPayload < 0:
		return c, fmt.Errorf("feed: MaxPayload is %d, want 0 (default) or more", c.MaxPayload)
	}
	if err := zmqsock.CheckEndpoint(c.Endpoint, false); err != nil {
		return c, fmt.Errorf("feed: %w", err)
	}
	if c.Replay != "" {
		if err := zmqsock.CheckEndpoint(c.Replay, false); err != nil {
			return c, fmt.Errorf("feed: replay: %w", err)
		}
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = 8 << 20
	}
	if c.ReplayTimeout <= 0 {
		c.ReplayTimeout = 30 * time.Second
	}
	if c.AnswerTimeout <= 0 {
		c.AnswerTimeout = 5 * time.Second
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Name == "" {
		c.Name = strconv.FormatUint(c.Worker.WorkerID, 10)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("worker", c.Name, "dp_rank", c.Worker.DPRank)
	return c, nil
}

// maxBlockSize bounds the tokens of a block; engines have 1 to 1024.
const maxBlockSize = 1 << 16
