package replication

import (
	"context"
	"sync"
	"time"
)

// Transport carries messages to all peers, and may lose, double and reorder them.
type Transport interface {
	// Publish sends m to all peers. It must not block, and may drop.
	Publish(m Message)
	// Receive returns the channel of what arrives; closed when the transport is.
	Receive() <-chan Message
	// Connected is sent to, without blocking, when a peer was reached.
	Connected() <-chan struct{}
	// Close ends the transport and returns when all that it started has ended.
	Close() error
}

// tickEvery is how often a Runner looks for what is due: the delay of a binding.
const tickEvery = 2 * time.Millisecond

// receiveBatch bounds how many messages are taken between two sendings, so that
// a peer's flood does not keep our own bindings waiting.
const receiveBatch = 256

// Runner drives a Core over a Transport. Status and Peers are safe for concurrent
// use.
type Runner struct {
	core      *Core
	transport Transport
	signer    *Signer // nil: messages are not signed

	mu     sync.Mutex
	status Status
}

// Status is how far a replica's joining is, and what is known of its peers.
type Status struct {
	Ready    bool
	TimedOut bool // it is ready only because the sync timeout passed
	Peers    []Peer
}

// NewRunner returns a Runner; signer may be nil. The Runner owns core and signer
// from now on, but for Core.Local; the transport stays the caller's to close.
func NewRunner(core *Core, transport Transport, signer *Signer) *Runner {
	return &Runner{core: core, transport: transport, signer: signer}
}

// Status returns the state at most a second ago.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Run replicates until ctx ends or the transport is closed; then it returns
// ctx's error, or nil. What is queued at the end is still sent.
func (r *Runner) Run(ctx context.Context) error {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	var reported time.Time
	for {
		select {
		case <-ctx.Done():
			r.send(time.Now())
			return ctx.Err()
		case <-r.transport.Connected():
			r.core.Connected(time.Now())
		case m, ok := <-r.transport.Receive():
			if !ok {
				return nil
			}
			r.receiveSome(m)
		case <-ticker.C:
		}
		now := time.Now()
		r.core.Tick(now)
		r.send(now)
		if ready, timedOut := r.core.Ready(); now.Sub(reported) >= time.Second || ready != r.status.Ready {
			reported = now
			r.mu.Lock()
			r.status = Status{Ready: ready, TimedOut: timedOut, Peers: r.core.Peers()}
			r.mu.Unlock()
		}
	}
}

func (r *Runner) send(now time.Time) {
	for _, m := range r.core.Flush(now) {
		if r.signer != nil {
			r.signer.Sign(&m)
		}
		r.transport.Publish(m)
	}
}

// receiveSome takes the message and what else waits.
func (r *Runner) receiveSome(m Message) {
	now := time.Now()
	for n, ok := 0, true; ok && n < receiveBatch; n++ {
		if r.signer != nil && r.signer.Check(&m) != nil {
			r.core.count(Forged)
		} else {
			r.core.Receive(now, m)
		}
		select {
		case m, ok = <-r.transport.Receive():
		default:
			return
		}
	}
}
