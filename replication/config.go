package replication

import (
	"cmp"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/affinity"
)

// Config says how a Core replicates. Sessions, SenderID and WriterID are required.
type Config struct {
	// Sessions holds the bindings; its Config.Publish is to call Core.Local.
	Sessions *affinity.Resolver
	// SenderID names this process; it must be random and fresh for each start.
	SenderID uint64
	// WriterID is that of Sessions.
	WriterID uint64
	// PublishV1 sends each binding on TopicV1 too, for older peers.
	PublishV1 bool
	// MaxClockSkew is how far above the wall clock a sequence is accepted; half of
	// it without a sender id. Zero means 1 h.
	MaxClockSkew time.Duration
	// MaxReplicaTTL caps the life that a message can give. Zero means 24 h.
	MaxReplicaTTL time.Duration
	// DigestEvery is the mean time between digests. Zero means 5 s.
	DigestEvery time.Duration
	// SyncTimeout is after how long the replica is ready although peers still
	// differ: from the start or, while they are being repaired, since something that
	// was lacking came. It may so become syncTimeouts times as long. Zero means 3 s.
	SyncTimeout time.Duration
	// MaxQueue bounds what waits to be sent or to be refreshed. Zero means 131072.
	MaxQueue int
	// Links says how far the connections to the peers are: the joining waits for
	// those that will answer. It must be quick. Nil: it waits for no particular
	// peer.
	Links func() []Link
	// Ended is told of requests picked here whose end another replica heard of,
	// by the Core's goroutine: it must be quick. Nil: such ends are dropped.
	Ended func(End)
	// WallNow tells the time that sequences are compared with. Nil means time.Now.
	WallNow func() time.Time
	// Registerer gets the metrics of this package. Nil: they are not registered.
	Registerer prometheus.Registerer

	ablate ablation
}

// ablation reverts rules, so that the simulation can show that it would find the
// failure which each one prevents. Only tests set it.
type ablation struct {
	livenessGates bool // bindings to unknown workers are dropped
	leadingEdge   bool // a refresh that comes too early is forgotten
	skipOwnWriter bool // events are skipped by writer, not by sender
	noDigests     bool // losses are not repaired
	noSkewLimit   bool // any sequence is accepted
	wallDeadlines bool // deadlines travel, as the sender's wall clock has them
	holesTrigger  bool // a hole in a sender's numbers asks for digests
	noHave        bool // what the asker holds is sent all the same
	noRefused     bool // what the asker refused is sent all the same
	resendAlways  bool // a record is sent as often as it is asked for
	resendDying   bool // records that are about to expire are sent
	fullAsksAll   bool // a full replica asks for all that differs
	narrowAll     bool // every bucket counts as large
}

func (c *Config) validate() error {
	c.MaxClockSkew = cmp.Or(c.MaxClockSkew, time.Hour)
	c.MaxReplicaTTL = cmp.Or(c.MaxReplicaTTL, 24*time.Hour)
	c.DigestEvery = cmp.Or(c.DigestEvery, 5*time.Second)
	c.SyncTimeout = cmp.Or(c.SyncTimeout, 3*time.Second)
	c.MaxQueue = cmp.Or(c.MaxQueue, 131072)
	if c.WallNow == nil {
		c.WallNow = time.Now
	}
	switch {
	case c.Sessions == nil || c.SenderID == 0:
		return errors.New("replication needs sessions and a sender id")
	case c.MaxClockSkew < 0 || c.MaxReplicaTTL < 0 || c.DigestEvery < 0 || c.SyncTimeout < 0 || c.MaxQueue < 0:
		return errors.New("durations and limits of replication must not be negative")
	}
	return nil
}
