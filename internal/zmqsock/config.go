package zmqsock

import (
	"fmt"
	"log/slog"
	"net"
	"time"
)

// PublisherConfig is all a Publisher needs. Every zero field but Endpoint
// means its default.
type PublisherConfig struct {
	// Endpoint to bind, "tcp://HOST:PORT"; host "*" is every address, port 0 or
	// "*" any free port.
	Endpoint string
	// QueueMessages and QueueBytes bound what waits for one peer, including
	// what is being written; the newest message is dropped when either is
	// reached. Into an empty queue a message of any legal size goes.
	// Default 2,000 messages, 8 MiB.
	QueueMessages, QueueBytes int
	// MaxMessage bounds a published message, all its frames together, in bytes.
	// A Subscriber with a lower limit is cut off by a larger message. Default
	// 16 MiB, as there.
	MaxMessage int
	// MaxPeers bounds the subscribers, MaxPeersPerAddress those of one IP
	// address; later ones are refused. Default 256 and 128. (All peers behind
	// one sidecar or NAT have one address.)
	MaxPeers, MaxPeersPerAddress int
	// MaxHandshakes bounds the connections that have not finished their
	// handshake. One more pushes out the oldest of the address that has most:
	// who is quick gets in even while others hold connections open. Default 64.
	MaxHandshakes int
	// MaxTopics bounds the subscriptions of one peer, MaxTopic the bytes of
	// one; beyond, the peer is cut. Default 64 and 512.
	MaxTopics, MaxTopic int
	// HandshakeTimeout is what greeting and READY may take. Default 2 s.
	HandshakeTimeout time.Duration
	// StallTimeout cuts a peer that takes nothing for so long although data
	// waits for it, or that stops in mid-message. Default 5 s.
	StallTimeout time.Duration
	// Linger is how long Close lets queued messages go out. Default 0: they
	// are discarded.
	Linger time.Duration
	// Logger gets connections at debug level. Nil: nobody.
	Logger *slog.Logger
}

func (c PublisherConfig) withDefaults() (PublisherConfig, error) {
	err := fill("publisher",
		count{"QueueMessages", &c.QueueMessages, 2000}, count{"QueueBytes", &c.QueueBytes, 8 << 20},
		count{"MaxMessage", &c.MaxMessage, 16 << 20}, count{"MaxPeers", &c.MaxPeers, 256},
		count{"MaxPeersPerAddress", &c.MaxPeersPerAddress, 128}, count{"MaxHandshakes", &c.MaxHandshakes, 64},
		count{"MaxTopics", &c.MaxTopics, 64}, count{"MaxTopic", &c.MaxTopic, 512})
	if err != nil {
		return c, err
	}
	c.HandshakeTimeout = orDefault(c.HandshakeTimeout, 2*time.Second)
	c.StallTimeout = orDefault(c.StallTimeout, 5*time.Second)
	c.Logger = orDiscard(c.Logger)
	return c, nil
}

// SubscriberConfig is all a Subscriber needs. Every zero field but Endpoint
// means its default.
type SubscriberConfig struct {
	// Endpoint to dial, "tcp://HOST:PORT". It is the only address ever dialled;
	// a host name is resolved anew each time.
	Endpoint string
	// Topics are the byte prefixes of the first frame that are subscribed.
	// The empty string is every message. None: nothing will come.
	Topics []string
	// QueueMessages and QueueBytes bound what waits to be taken from Messages;
	// the newest message is dropped when either is reached. Into an empty queue
	// a message of any legal size goes. Default 4,096 messages, 16 MiB.
	QueueMessages, QueueBytes int
	// MarkDrops puts a mark, a Message without frames, where messages were
	// dropped, even if none comes after them.
	MarkDrops bool
	// MaxMessage bounds a message, all its frames together, in bytes, and
	// MaxFrames its frames; beyond, the connection ends before anything is
	// allocated. Default 16 MiB and 8.
	MaxMessage, MaxFrames int
	// DialTimeout is what the TCP connection may take. Default 1 s.
	DialTimeout time.Duration
	// HandshakeTimeout is what greeting and READY may take. Default 2 s.
	HandshakeTimeout time.Duration
	// IdleTimeout ends a connection on which nothing was heard for so long.
	// Only for publishers that are known to send regularly. Default 0: never;
	// a vanished host is then noticed by TCP keep-alive after about 25 s, a
	// stopped process not at all.
	IdleTimeout time.Duration
	// IdleTopic, if not empty, arms IdleTimeout anew on each connection by the
	// first message whose first frame it is: who has sent one is known to send
	// regularly, whoever else it is that publishes there.
	IdleTopic string
	// StallTimeout ends a connection that stops in mid-message, or does not
	// take a PONG. Default 5 s.
	StallTimeout time.Duration
	// MinBackoff and MaxBackoff bound the pause before a new attempt: it
	// doubles from one to the other, and up to half of it is taken off at
	// random. Default 50 ms and 1 s.
	MinBackoff, MaxBackoff time.Duration
	// Notify is told of every change of the connection, in order, from the
	// goroutine that reads it: it must not block. Nil: nobody.
	Notify func(Event)
	// Logger gets connections at debug level. Nil: nobody.
	Logger *slog.Logger
}

func (c SubscriberConfig) withDefaults() (SubscriberConfig, error) {
	err := fill("subscriber",
		count{"QueueMessages", &c.QueueMessages, 4096}, count{"QueueBytes", &c.QueueBytes, 16 << 20},
		count{"MaxMessage", &c.MaxMessage, 16 << 20}, count{"MaxFrames", &c.MaxFrames, 8})
	if err != nil {
		return c, err
	}
	c.DialTimeout = orDefault(c.DialTimeout, time.Second)
	c.HandshakeTimeout = orDefault(c.HandshakeTimeout, 2*time.Second)
	c.StallTimeout = orDefault(c.StallTimeout, 5*time.Second)
	c.MinBackoff = orDefault(c.MinBackoff, 50*time.Millisecond)
	c.MaxBackoff = max(orDefault(c.MaxBackoff, time.Second), c.MinBackoff)
	c.IdleTimeout = max(c.IdleTimeout, 0)
	c.Logger = orDiscard(c.Logger)
	if c.Notify == nil {
		c.Notify = func(Event) {}
	}
	return c, nil
}

// A count is a field that must not be negative and has a default.
type count struct {
	name     string
	field    *int
	fallback int
}

func fill(of string, counts ...count) error {
	for _, c := range counts {
		if *c.field < 0 {
			return fmt.Errorf("%s: %s is %d, want 0 (default) or more", of, c.name, *c.field)
		}
		if *c.field == 0 {
			*c.field = c.fallback
		}
	}
	return nil
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

func orDiscard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// keepAlive notices a vanished host after about 25 s of silence, on both sides.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}
}
