package simworker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"mooring/internal/zmqsock"
)

// Endpoints are the addresses a worker is bound to, with the ports really
// used. Rank i is at each of them plus i.
type Endpoints struct {
	HTTP     string // HOST:PORT
	KVEvents string // tcp://HOST:PORT of rank 0; empty: none
	KVReplay string // likewise
}

// What may wait for one subscriber of KV events. vLLM's own limit is 100,000
// messages, and has none for bytes.
const (
	kvQueueMessages = 100_000
	kvQueueBytes    = 64 << 20
)

// makeLanes makes what stands behind the ranks, nothing without KV events.
func (w *Worker) makeLanes() error {
	cfg := w.cfg.Events
	if !cfg.journaled() {
		return nil
	}
	for i := range w.cfg.Ranks {
		l := &lane{engine: w.engine, rank: i, commands: make(chan func())}
		l.stream = &kvStream{
			cfg: cfg, buffer: newReplayBuffer(cfg.Buffer), counts: &w.metrics.kv[i], logger: w.cfg.Logger,
			enc: kvEncoder{
				format: cfg.Format, hashes: cfg.Hashes, salt: cfg.Salt, blockSize: w.cfg.BlockSize,
				rank: i, adapters: w.cfg.Adapters,
			},
		}
		if w.cfg.Agent.Dir != "" {
			var err error
			if l.agent, err = newAgent(w.cfg, i); err != nil {
				return err
			}
		}
		w.lanes = append(w.lanes, l)
	}
	return nil
}

// startLanes binds the sockets of every rank and starts a goroutine for each,
// which ends with ctx; the caller waits for them. After an error nothing is
// left.
func (w *Worker) startLanes(ctx context.Context, ln net.Listener) (running *sync.WaitGroup, err error) {
	defer func() {
		if err != nil {
			for _, l := range w.lanes {
				l.close()
			}
		}
	}()
	if err := w.bindLanes(ctx); err != nil {
		return nil, fmt.Errorf("kv events: %w", err)
	}
	for _, l := range w.lanes {
		if l.agent == nil {
			continue
		}
		if err := l.agent.open(ctx, ln.Addr(), l.stream.publisher.Endpoint()); err != nil {
			return nil, fmt.Errorf("state agent of rank %d: %w", l.rank, err)
		}
	}
	running = new(sync.WaitGroup)
	for _, l := range w.lanes {
		running.Go(func() { l.run(ctx) })
	}
	return running, nil
}

func (w *Worker) bindLanes(ctx context.Context) error {
	if len(w.lanes) == 0 {
		return nil
	}
	cfg := w.cfg.Events
	err := bindRanks(cfg.Endpoint, w.lanes, func(l *lane, endpoint string) (bound, error) {
		p, err := zmqsock.Listen(ctx, zmqsock.PublisherConfig{
			Endpoint: endpoint, QueueMessages: kvQueueMessages, QueueBytes: kvQueueBytes, Logger: w.cfg.Logger,
		})
		l.stream.publisher = p
		return p, err
	})
	if err != nil || cfg.Replay == "" {
		return err
	}
	return bindRanks(cfg.Replay, w.lanes, func(l *lane, endpoint string) (bound, error) {
		r, err := zmqsock.ListenRouter(ctx, zmqsock.RouterConfig{Endpoint: endpoint, Serve: l.stream.replay, Logger: w.cfg.Logger})
		l.stream.router = r
		return r, err
	})
}

// bound is a socket of either kind.
type bound interface {
	Endpoint() string
	Close() error
}

// maxBindTries is how often free consecutive ports are looked for.
const maxBindTries = 32

// bindRanks binds one socket for each lane, at consecutive ports. With port 0
// the first is any free one from which on there are enough.
func bindRanks(endpoint string, lanes []*lane, bind func(*lane, string) (bound, error)) error {
	host, port, err := splitEndpoint(endpoint)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := bindFrom(host, port, lanes, bind)
		if err == nil || port != 0 || try == maxBindTries {
			return err
		}
	}
}

func bindFrom(host string, port int, lanes []*lane, bind func(*lane, string) (bound, error)) error {
	var all []bound
	for i, l := range lanes {
		b, err := bind(l, "tcp://"+net.JoinHostPort(host, strconv.Itoa(port+i)))
		if err != nil {
			for _, b := range all {
				b.Close()
			}
			return err
		}
		all = append(all, b)
		if port == 0 {
			if _, port, err = splitEndpoint(b.Endpoint()); err != nil {
				return err
			}
		}
	}
	return nil
}

func splitEndpoint(endpoint string) (host string, port int, err error) {
	rest, ok := strings.CutPrefix(endpoint, "tcp://")
	if !ok {
		return "", 0, fmt.Errorf("endpoint %q: must be tcp://HOST:PORT", endpoint)
	}
	host, text, err := net.SplitHostPort(rest)
	if err != nil {
		return "", 0, fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		return "", 0, errors.Join(fmt.Errorf("endpoint %q: the port must be a number", endpoint), err)
	}
	return host, port, nil
}

// endpoints says where everything is bound.
func (w *Worker) endpoints(ln net.Listener) Endpoints {
	e := Endpoints{HTTP: ln.Addr().String()}
	if len(w.lanes) > 0 {
		e.KVEvents = w.lanes[0].stream.publisher.Endpoint()
		if r := w.lanes[0].stream.router; r != nil {
			e.KVReplay = r.Endpoint()
		}
	}
	return e
}
