package replication

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"mooring/affinity"
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

const (
	// tickEvery is how often a Runner looks for what is due by time. Bindings do
	// not wait for it.
	tickEvery = 20 * time.Millisecond
	// aliveEvery is how often it says that it is there; see silence.
	aliveEvery = time.Second
	// quiet is after how long without a word it is no longer known what a peer has.
	quiet = 3 * aliveEvery
	// reportEvery is how old a Status may be.
	reportEvery = 500 * time.Millisecond
	// receiveBatch bounds how many messages are taken between two sendings, so that
	// a peer's flood does not keep our own bindings waiting.
	receiveBatch = 256
	// flushRounds bounds how many batches are sent between two receivings.
	flushRounds = 16
	// maxEnds bounds the ends of others' requests that wait to be sent.
	maxEnds = 4096
)

// Runner drives a Core over a Transport. All methods but Run are safe for
// concurrent use.
type Runner struct {
	core      *Core
	transport Transport
	signer    *Signer // nil: messages are not signed
	rejoin    chan chan struct{}
	ends      chan End
	voices    voices // of Run's goroutine

	mu      sync.Mutex
	status  Status
	joined  chan struct{} // closed while status.Join says that the joining is over
	stopped bool          // nothing reads ends any more
}

// Join says how far the joining of a replica is.
type Join uint8

// How far a joining is.
const (
	Joining         Join = iota
	JoinedByDigest       // peers answered, and what differed was repaired
	JoinedByTimeout      // no peer answered, or not all was repaired, in time
)

// String returns the word that /readyz and metrics use.
func (j Join) String() string {
	switch j {
	case Joining:
		return "joining"
	case JoinedByDigest:
		return "digest"
	default:
		return "timeout"
	}
}

// Status is how far a replica's joining is, and what is known of its peers.
type Status struct {
	Join      Join
	Converged bool    // whether nothing differed from some peer since the joining began
	Peers     []Peer  // of those that are not heard, ConvergedSince is zero
	Voices    []Voice // the endpoints from which something came
	Self      string  // the endpoint among the peers that is this replica's own; "" if none was found out to be
}

// NewRunner returns a Runner; signer may be nil, and so may logger, which discards.
// The Runner owns core and signer from now on, but for Core.Local; the transport
// stays the caller's to close.
func NewRunner(core *Core, transport Transport, signer *Signer, logger *slog.Logger) *Runner {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Runner{
		voices: voices{logger: logger, by: make(map[string]*voice)},
		core:   core, transport: transport, signer: signer,
		rejoin: make(chan chan struct{}), ends: make(chan End, maxEnds), joined: make(chan struct{}),
	}
}

// Status returns the state at most half a second ago; Join is as it is now.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Joined waits until the joining is over, and returns ctx's error if that ends
// first.
func (r *Runner) Joined(ctx context.Context) error {
	r.mu.Lock()
	joined := r.joined
	r.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-joined:
		return nil
	}
}

// Rejoin begins to join anew: this process may have missed anything. It waits for
// Run to begin with it; then Status says Joining, unless ctx has ended before.
func (r *Runner) Rejoin(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case r.rejoin <- done:
		<-done
		return nil
	}
}

// End tells the replica that picked a request how it ended. It does not block,
// and reports false if that replica has not been heard of lately, if too many ends
// wait, or if Run has ended.
func (r *Runner) End(e End) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := false
	for _, p := range r.status.Peers {
		known = known || p.SenderID == e.Replica && time.Since(p.LastHeard) < silence
	}
	if !known || r.stopped {
		return false
	}
	select {
	case r.ends <- e:
		return true
	default:
		return false
	}
}

// Run replicates until ctx ends or the transport is closed; then it returns
// ctx's error, or nil. What is queued at the end is still sent.
func (r *Runner) Run(ctx context.Context) error {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	defer r.takeNoEnds()
	var reported, alive time.Time
	for {
		select {
		case <-ctx.Done():
			r.sendLast(time.Now())
			return ctx.Err()
		case <-r.transport.Connected():
			r.core.Connected(time.Now())
		case m, ok := <-r.transport.Receive():
			if !ok {
				return nil
			}
			r.receiveSome(m)
		case e := <-r.ends:
			r.core.SendEnd(time.Now(), e)
		case done := <-r.rejoin:
			r.core.Rejoin(time.Now())
			r.report(time.Now())
			close(done)
		case <-r.core.Wake():
		case <-ticker.C:
		}
		now := time.Now()
		r.core.Tick(now)
		if now.Sub(alive) >= aliveEvery {
			alive = now
			r.core.Alive()
		}
		r.send(now)
		if r.core.joinState() != r.status.Join || now.Sub(reported) >= reportEvery {
			reported = now
			r.report(now)
		}
	}
}

// takeNoEnds has End refuse what is not sent any more.
func (r *Runner) takeNoEnds() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

// report renews the status. Only Run's goroutine writes it.
func (r *Runner) report(now time.Time) {
	next := Status{Join: r.core.joinState(), Peers: r.core.Peers(), Voices: r.voices.list(), Self: r.core.echoes}
	next.Converged = r.status.Converged && next.Join != Joining
	for i, p := range next.Peers {
		if now.Sub(p.LastHeard) >= quiet {
			next.Peers[i].ConvergedSince = time.Time{}
		}
		next.Converged = next.Converged || !next.Peers[i].ConvergedSince.IsZero()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.status.Join
	r.status = next
	switch {
	case was == Joining && r.status.Join != Joining:
		close(r.joined)
	case was != Joining && r.status.Join == Joining:
		r.joined = make(chan struct{})
	}
}

func (r *Runner) send(now time.Time) {
	for range flushRounds {
		batch := r.core.Flush(now)
		for _, m := range batch {
			if r.signer != nil {
				r.signer.Sign(&m)
			}
			r.transport.Publish(m)
		}
		if len(batch) < flushBatch {
			return
		}
	}
}

// sendLast sends all that waits, ends that were taken and also what waits for the
// end of an interval: it is as if time had come to an end.
func (r *Runner) sendLast(now time.Time) {
	r.takeNoEnds()
	for n := len(r.ends); n > 0; n-- {
		r.core.SendEnd(now, <-r.ends)
	}
	r.send(now)
	r.send(now.Add(affinity.MaxTTL))
}

// receiveSome takes the message and what else waits.
func (r *Runner) receiveSome(m Message) {
	now := time.Now()
	for n, ok := 0, true; ok && n < receiveBatch; n++ {
		r.receiveOne(now, m)
		select {
		case m, ok = <-r.transport.Receive():
		default:
			return
		}
	}
}

// receiveOne takes a message of two frames without a key, of three with one.
func (r *Runner) receiveOne(now time.Time, m Message) {
	why, err := r.check(&m)
	r.voices.hear(now, m.From, why)
	switch {
	case why == SignedAtAll:
		r.core.count(Malformed)
	case err != nil:
		r.core.count(Forged)
	default:
		r.core.Receive(now, m)
	}
}
