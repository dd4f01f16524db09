package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mooring/internal/zmqsock"
)

// Bounds of the mesh's sockets. A replica that has stopped reading costs its
// peers meshQueueBytes at most, and that until it is cut off, after 5 s.
const (
	meshQueue      = 65536    // messages that wait for one peer, or from one peer
	meshQueueBytes = 16 << 20 // and their bytes
	maxPublished   = MaxPayload + 4096
	maxReceived    = 4 * MaxPayload // what is above MaxPayload is refused, not cut off
	meshLinger     = time.Second    // for the last messages at Close
	bindAgain      = time.Second
)

// ZMQConfig says where a mesh over ZeroMQ is. Listen is required.
type ZMQConfig struct {
	// Listen is the endpoint of this replica's PUB socket, "tcp://HOST:PORT".
	// Port 0 takes a free one.
	Listen string
	// Peers are the endpoints of the other replicas. This one may be among them.
	Peers []string
	// Logger gets what goes wrong with the mesh, and each peer that comes or goes.
	// Nil discards.
	Logger *slog.Logger
}

// ZMQ is a full mesh over ZeroMQ: one PUB socket here, and a SUB socket for each
// peer. All methods are safe for concurrent use.
//
// A port that is taken is no error: bindings of peers arrive all the same, and
// the port is tried again each second.
type ZMQ struct {
	cfg       ZMQConfig
	in        chan Message
	connected chan struct{}
	publisher atomic.Pointer[zmqsock.Publisher] // nil: not bound yet
	tally     *meshTally

	ctx  context.Context
	stop context.CancelFunc
	all  sync.WaitGroup // the goroutine that binds, and one for each link

	mu struct {
		sync.Mutex
		links   []*link // in the order of Peers
		bindErr error   // why publisher is nil
		closed  bool
	}
}

// NewZMQ binds and starts to dial the peers. Errors are wrong endpoints.
func NewZMQ(cfg ZMQConfig) (*ZMQ, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := zmqsock.CheckEndpoint(cfg.Listen, true); err != nil {
		return nil, err
	}
	z := &ZMQ{cfg: cfg, in: make(chan Message), connected: make(chan struct{}, 1), tally: newMeshTally()}
	z.ctx, z.stop = context.WithCancel(context.Background())
	if !z.bind() {
		cfg.Logger.Warn("the mesh port is taken; trying again each second, and serving alone until then", "error", z.mu.bindErr)
		z.all.Go(z.bindLater)
	}
	if err := z.SetPeers(cfg.Peers); err != nil {
		z.Close()
		return nil, err
	}
	return z, nil
}

func (z *ZMQ) bind() bool {
	p, err := zmqsock.Listen(z.ctx, zmqsock.PublisherConfig{
		Endpoint: z.cfg.Listen, QueueMessages: meshQueue, QueueBytes: meshQueueBytes, MaxMessage: maxPublished,
		Linger: meshLinger, Logger: z.cfg.Logger,
	})
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.mu.bindErr = err; err != nil {
		return false
	}
	z.publisher.Store(p)
	return true
}

func (z *ZMQ) bindLater() {
	again := time.NewTicker(bindAgain)
	defer again.Stop()
	for {
		select {
		case <-z.ctx.Done():
			return
		case <-again.C:
			if z.bind() {
				z.cfg.Logger.Info("the mesh port is free now", "mesh", z.publisher.Load().Endpoint())
				return
			}
		}
	}
}

// Endpoint returns where the PUB socket is bound, with the port really used, or
// why it is not.
func (z *ZMQ) Endpoint() (string, error) {
	if p := z.publisher.Load(); p != nil {
		return p.Endpoint(), nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return "", fmt.Errorf("mesh: %w", z.mu.bindErr)
}

// SetPeers connects to the peers that are new and leaves those that are not
// listed any more; the others do not notice. If one endpoint is wrong nothing
// changes.
func (z *ZMQ) SetPeers(endpoints []string) error {
	var wrong []error
	for _, e := range endpoints {
		wrong = append(wrong, zmqsock.CheckEndpoint(e, false))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	own, _ := z.Endpoint()
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.mu.closed {
		return nil
	}
	var links, left []*link
	for _, e := range endpoints {
		listed := func(l *link) bool { return l.endpoint == e }
		if e == own || e == z.cfg.Listen || slices.ContainsFunc(links, listed) {
			continue
		}
		if i := slices.IndexFunc(z.mu.links, listed); i >= 0 {
			links = append(links, z.mu.links[i])
		} else {
			links = append(links, z.dial(e))
		}
	}
	for _, l := range z.mu.links {
		if !slices.Contains(links, l) {
			left = append(left, l)
		}
	}
	z.mu.links = links
	for _, l := range left {
		l.stop()
	}
	return nil
}

// Reset drops all connections to peers, with everything that came on them and
// was not received yet, and connects anew. It returns when the old ones are gone.
func (z *ZMQ) Reset() {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.mu.closed {
		return
	}
	for _, l := range z.mu.links {
		l.stop()
	}
	for i, l := range z.mu.links {
		<-l.done
		z.mu.links[i] = z.dial(l.endpoint)
	}
}

// Links returns the connections to the peers, in the order of the endpoints.
func (z *ZMQ) Links() []Link {
	z.mu.Lock()
	defer z.mu.Unlock()
	links := make([]Link, len(z.mu.links))
	for i, l := range z.mu.links {
		links[i] = l.link()
	}
	return links
}

// Subscribers returns how many connections to the mesh port have subscribed: those
// of the peers that dial this replica, and its own if it dials itself.
func (z *ZMQ) Subscribers() int {
	p := z.publisher.Load()
	if p == nil {
		return 0
	}
	return p.Stats().Peers
}

// Publish implements Transport.
func (z *ZMQ) Publish(m Message) {
	p := z.publisher.Load()
	if p == nil {
		z.tally.unbound.Inc()
		return
	}
	frames := make([][]byte, 2, 3)
	frames[0], frames[1] = []byte(m.Topic), m.Payload
	if m.Auth != nil {
		frames = append(frames, m.Auth)
	}
	if err := p.Publish(frames); errors.Is(err, zmqsock.ErrMessage) {
		z.tally.refused[tooLarge].Inc()
		z.cfg.Logger.Error("a message of ours is too large for the mesh", "topic", m.Topic, "bytes", len(m.Payload))
	}
}

// Receive implements Transport. A peer that sends more than is received loses
// its own messages, not those of others.
func (z *ZMQ) Receive() <-chan Message { return z.in }

// Connected implements Transport.
func (z *ZMQ) Connected() <-chan struct{} { return z.connected }

// Close sends what is queued, for at most a second, and returns when all that was
// started has ended. Twice is harmless.
func (z *ZMQ) Close() error {
	z.mu.Lock()
	if z.mu.closed {
		z.mu.Unlock()
		return nil
	}
	z.mu.closed = true
	links := z.mu.links
	z.mu.Unlock()
	for _, l := range links {
		l.stop()
	}
	p := z.publisher.Load()
	if p != nil {
		p.Close()
	}
	z.stop()
	z.all.Wait()
	if late := z.publisher.Load(); p == nil && late != nil {
		late.Close()
	}
	close(z.in)
	return nil
}
