package affinity

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/internal/fleet"
)

// Limits of Config.
const (
	MinTTL = time.Second
	MaxTTL = 8760 * time.Hour

	maxMaxSessions = 1 << 30 // positions in the deadline heap are 32-bit
)

// Mode says how far a binding obliges those who dispatch.
type Mode uint8

const (
	// Hard: a request of a bound session goes to the bound target or is refused.
	Hard Mode = iota
	// Soft: the bound target is a preference, and the binding follows the dispatch.
	Soft
)

// String returns the name used in the configuration.
func (m Mode) String() string {
	switch m {
	case Hard:
		return "hard"
	case Soft:
		return "soft"
	default:
		return "mode(" + strconv.Itoa(int(m)) + ")"
	}
}

// WhenGone says what happens to a request whose bound worker is not schedulable
// and that does not itself name another one.
type WhenGone uint8

const (
	// Rebind: the request chooses anew.
	Rebind WhenGone = iota
	// Fail: the request is refused with ErrWorkerGone; the binding stays until
	// it expires, so that the worker may come back to its sessions.
	Fail
	// Wait: the request waits up to Config.WaitFor for the worker to become
	// schedulable, then is refused like Fail.
	Wait
)

// String returns the name used in the configuration.
func (w WhenGone) String() string {
	switch w {
	case Rebind:
		return "rebind"
	case Fail:
		return "fail"
	case Wait:
		return "wait"
	default:
		return "when_gone(" + strconv.Itoa(int(w)) + ")"
	}
}

// Config says how sessions are kept. The zero Config is valid.
type Config struct {
	// Mode is hard or soft, for every partition.
	Mode Mode
	// TTL is how long a binding outlives the end of its last request: 1 s to
	// 8760 h. Zero means 30 minutes.
	TTL time.Duration
	// MaxSessions bounds the sessions of one partition, those being initialised
	// included. Zero means 65536.
	MaxSessions int
	// InitTimeout is how long an initialiser may take from Acquire to Bind. Zero
	// means 5 s.
	InitTimeout time.Duration
	// WhenGone says what to do when the bound worker is not schedulable.
	WhenGone WhenGone
	// WaitFor bounds the waiting of WhenGone Wait. Zero means 5 s.
	WaitFor time.Duration
	// Grace is how long the empty table of a partition outlives the partition's
	// last appearance in the fleet's view. Zero means 30 s.
	Grace time.Duration
	// WriterID is this replica's part of the versions it makes.
	WriterID uint64
	// WallNow seeds versions; nothing else reads the wall clock. It must be
	// quick and safe for concurrent use. Nil means time.Now.
	WallNow func() time.Time
	// MaxClockSkew is how far above the wall clock the sequences are that replicas
	// accept of one another; Apply is given no others. What it is given moves this
	// replica's own sequences ahead by half of that at most, and never by more than
	// 30 minutes. Zero means 1 h.
	MaxClockSkew time.Duration
	// Publish is told of every change and use of a binding, after all locks are
	// released, by the goroutine that caused it: events of one session may
	// arrive out of order, and their versions tell which is newer. It must not
	// block. Nil: nobody listens.
	Publish func(fleet.Partition, Event)
	// Logger gets one line for each move and each operator's act. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics of this package. Nil: they are not registered.
	Registerer prometheus.Registerer

	// TestingOnlyRevert has one rule not obeyed, so that a simulation can show
	// that it finds the failure which the rule prevents.
	TestingOnlyRevert Rule
}

// validate fills in defaults and names the first setting that is out of range.
func (c *Config) validate() error {
	setDefault(&c.TTL, 30*time.Minute)
	setDefault(&c.MaxSessions, 65536)
	setDefault(&c.InitTimeout, 5*time.Second)
	setDefault(&c.WaitFor, 5*time.Second)
	setDefault(&c.Grace, 30*time.Second)
	setDefault(&c.MaxClockSkew, time.Hour)
	if c.WallNow == nil {
		c.WallNow = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Mode > Soft:
		return fmt.Errorf("unknown %v", c.Mode)
	case c.WhenGone > Wait:
		return fmt.Errorf("unknown %v", c.WhenGone)
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		return fmt.Errorf("session TTL %v: want %v to %v", c.TTL, MinTTL, MaxTTL)
	case c.MaxSessions < 1 || c.MaxSessions > maxMaxSessions:
		return fmt.Errorf("limit of %d sessions: want 1 to %d", c.MaxSessions, maxMaxSessions)
	case c.InitTimeout < 0 || c.WaitFor < 0 || c.Grace < 0 || c.MaxClockSkew < 0:
		return errors.New("init timeout, wait, grace and clock skew must not be negative")
	}
	return nil
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
