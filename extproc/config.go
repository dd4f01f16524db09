package extproc

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// End says how the end of a response is learnt.
type End uint8

const (
	// AccessLog: from Envoy's gRPC access log. Streams may end right after the
	// pick.
	AccessLog End = iota
	// Stream: from the response's messages on the ext_proc stream or its end;
	// access log entries count too, if there are any.
	Stream
)

// messageSlack is what a gRPC message may be longer than the body in it.
const messageSlack = 64 << 10

// Config says how streams are served. The zero Config is valid but for ReplicaID.
type Config struct {
	// ReplicaID names this process in the metadata of picks, so that an access
	// log entry finds the replica that made the pick. Never zero.
	ReplicaID uint64
	// FirstLease numbers the first pick; the others count on from it. It should
	// be random, so that numbers do not tell how much traffic there is. Zero
	// takes a random one.
	FirstLease uint64
	// MaxBodyBytes bounds a request body that is needed for the decision. A
	// longer one is refused with 413. Zero means 16 MiB.
	MaxBodyBytes int64
	// MaxBufferedBytes bounds the bodies held by all streams together. A request
	// that would go over it is refused with 503 and reason overloaded. Zero
	// means 64 times MaxBodyBytes.
	MaxBufferedBytes int64
	// Deadline bounds one pick, from the moment that all it needs is there. Zero
	// means 2 s.
	Deadline time.Duration
	// BodyTimeout bounds how long the whole of a needed body may take to arrive.
	// Zero means 5 minutes.
	BodyTimeout time.Duration
	// MaxRequestTime is when a request whose end nobody reported counts as over.
	// Zero means 1 hour.
	MaxRequestTime time.Duration
	// MaxLeases bounds the requests whose end is awaited; with more, the oldest
	// counts as over. Zero means 262144.
	MaxLeases int
	// End says how the end of a response is learnt.
	End End
	// PullBody: where Envoy sends no bodies (request body mode NONE), one that
	// the decision needs is asked for by a mode override of its own. Needs Envoy
	// 1.40 and allow_mode_override in the filter's configuration. Without it
	// such a request is refused with 400.
	PullBody bool
	// DestinationHeader also puts the destination into the request header
	// x-gateway-destination-endpoint, for gateways that read it there.
	DestinationHeader bool
	// ModelHeader is the request header that may name the model, for messages to
	// clients only; "" for none.
	ModelHeader string
	// ConnectFailed is told the address of a worker that Envoy could not connect
	// to. It must not block and be safe for concurrent use. Nil: nobody is told.
	ConnectFailed func(address string)
	// Elsewhere is told ends of requests that another replica picked, and reports
	// whether it passes them on to it. It must not block and be safe for
	// concurrent use. Nil: they are only counted.
	Elsewhere func(RemoteEnd) bool
	// Awake reports whether this process may rely on what it knows; if not, it
	// is as with SetReady(false). It must be quick and safe for concurrent use.
	// Nil: always.
	Awake func() bool
	// Tracing makes the spans: one for each request, with its pick as child. Nil:
	// there are none, which is cheaper than a provider that records nothing.
	Tracing trace.TracerProvider
	// Logger gets one debug line for each request, and what an operator must
	// know. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics of this package. Nil: they are not registered.
	Registerer prometheus.Registerer
}

// validate fills in defaults and names what is out of range.
func (c *Config) validate() error {
	setDefault(&c.MaxBodyBytes, 16<<20)
	setDefault(&c.MaxBufferedBytes, 64*min(c.MaxBodyBytes, math.MaxInt64/64))
	setDefault(&c.Deadline, 2*time.Second)
	setDefault(&c.BodyTimeout, 5*time.Minute)
	setDefault(&c.MaxRequestTime, time.Hour)
	setDefault(&c.MaxLeases, 1<<18)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.ReplicaID == 0:
		return errors.New("a replica needs an id above 0")
	case c.MaxBodyBytes < 0 || c.MaxBodyBytes > math.MaxInt32-messageSlack:
		return fmt.Errorf("body limit of %d bytes: want 1 to %d", c.MaxBodyBytes, math.MaxInt32-messageSlack)
	case c.MaxBufferedBytes < c.MaxBodyBytes:
		return fmt.Errorf("limit of %d bytes over all bodies: want at least that of one, %d", c.MaxBufferedBytes, c.MaxBodyBytes)
	case c.Deadline < 0 || c.BodyTimeout < 0 || c.MaxRequestTime < 0:
		return errors.New("times must not be negative")
	case c.MaxLeases < 0:
		return fmt.Errorf("limit of %d leases: want at least 1", c.MaxLeases)
	case c.End > Stream:
		return fmt.Errorf("unknown end %d", c.End)
	}
	return c.drawFirstLease()
}

func (c *Config) drawFirstLease() error {
	if c.FirstLease != 0 {
		return nil
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return fmt.Errorf("draw a lease number: %w", err)
	}
	c.FirstLease = binary.BigEndian.Uint64(b[:])
	return nil
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
