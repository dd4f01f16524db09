package zmqsock

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// RouterConfig is all a Router needs. Every zero field but Endpoint and Serve
// means its default.
type RouterConfig struct {
	// Endpoint to bind, "tcp://HOST:PORT"; host "*" is every address, port 0 or
	// "*" any free port.
	Endpoint string
	// Serve answers one request, of which it owns the frames, with any number
	// of messages, by reply. It is called for one request of a peer after the
	// other, and concurrently for different peers. An error ends the connection, as a
	// request that breaks the protocol. ctx ends with the connection and after
	// RequestTimeout. reply blocks while the peer does not read, and fails when
	// the connection is to end: Serve then returns.
	Serve func(ctx context.Context, request [][]byte, reply func(frames ...[]byte) error) error
	// MaxPeers bounds the connections, MaxPeersPerAddress those of one IP
	// address; later ones are refused. Default 64 and 32.
	MaxPeers, MaxPeersPerAddress int
	// MaxHandshakes is as in PublisherConfig. Default 64.
	MaxHandshakes int
	// MaxRequests bounds the requests of one peer that wait for their turn;
	// with one more the peer is cut. Default 8.
	MaxRequests int
	// MaxRequest bounds a request, all its frames together, in bytes, and
	// MaxFrames its frames; beyond, the connection ends before anything is
	// allocated. Default 1 KiB and 8.
	MaxRequest, MaxFrames int
	// MaxReply bounds one message of an answer in bytes. Default 16 MiB.
	MaxReply int
	// RequestTimeout bounds the answer to one request. Default 1 min.
	RequestTimeout time.Duration
	// IdleTimeout ends a connection on which nothing was heard for so long. It
	// also bounds RequestTimeout. Default 5 min.
	IdleTimeout time.Duration
	// HandshakeTimeout is what greeting and READY may take. Default 2 s.
	HandshakeTimeout time.Duration
	// StallTimeout cuts a peer that takes nothing for so long although data
	// waits for it, or that stops in mid-message. Default 5 s.
	StallTimeout time.Duration
	// Logger gets connections at debug level. Nil: nobody.
	Logger *slog.Logger
}

func (c RouterConfig) withDefaults() (RouterConfig, error) {
	if c.Serve == nil {
		return c, errors.New("router: Serve is nil")
	}
	err := fill("router",
		count{"MaxPeers", &c.MaxPeers, 64}, count{"MaxPeersPerAddress", &c.MaxPeersPerAddress, 32},
		count{"MaxHandshakes", &c.MaxHandshakes, 64}, count{"MaxRequests", &c.MaxRequests, 8},
		count{"MaxRequest", &c.MaxRequest, 1 << 10}, count{"MaxFrames", &c.MaxFrames, 8},
		count{"MaxReply", &c.MaxReply, 16 << 20})
	if err != nil {
		return c, err
	}
	c.IdleTimeout = orDefault(c.IdleTimeout, 5*time.Minute)
	c.RequestTimeout = min(orDefault(c.RequestTimeout, time.Minute), c.IdleTimeout)
	c.HandshakeTimeout = orDefault(c.HandshakeTimeout, 2*time.Second)
	c.StallTimeout = orDefault(c.StallTimeout, 5*time.Second)
	c.Logger = orDiscard(c.Logger)
	return c, nil
}
