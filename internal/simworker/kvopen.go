package simworker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"mooring/internal/zmqsock"
)

// Endpoints are the addresses a worker is bound to, with the ports really
// used. Rank i is at each of them plus i.
type Endpoints struct {
	HTTP     string // HOST:PORT
	KVEvents string // tcp://HOST:PORT of rank 0; empty: none
	KVReplay string // likewise
}

// openStreams binds the sockets of every rank; nil without KV events. They
// close with ctx.
func (w *Worker) openStreams(ctx context.Context) ([]*kvStream, error) {
	cfg := w.cfg.Events
	if cfg.Endpoint == "" {
		return nil, nil
	}
	streams := make([]*kvStream, w.cfg.Ranks)
	for i := range streams {
		streams[i] = &kvStream{
			cfg: cfg, buffer: newReplayBuffer(cfg.Buffer), counts: &w.metrics.kv[i], logger: w.cfg.Logger,
			enc: kvEncoder{
				format: cfg.Format, hashes: cfg.Hashes, salt: cfg.Salt, blockSize: w.cfg.BlockSize,
				rank: i, adapters: w.cfg.Adapters,
			},
		}
	}
	err := bindRanks(cfg.Endpoint, streams, func(s *kvStream, endpoint string) (bound, error) {
		p, err := zmqsock.Listen(ctx, zmqsock.PublisherConfig{Endpoint: endpoint, Logger: w.cfg.Logger})
		s.publisher = p
		return p, err
	})
	if err == nil && cfg.Replay != "" {
		err = bindRanks(cfg.Replay, streams, func(s *kvStream, endpoint string) (bound, error) {
			r, err := zmqsock.ListenRouter(ctx, zmqsock.RouterConfig{Endpoint: endpoint, Serve: s.replay, Logger: w.cfg.Logger})
			s.router = r
			return r, err
		})
	}
	if err != nil {
		closeStreams(streams)
		return nil, fmt.Errorf("kv events: %w", err)
	}
	return streams, nil
}

func closeStreams(streams []*kvStream) {
	for _, s := range streams {
		s.close()
	}
}

// bound is a socket of either kind.
type bound interface {
	Endpoint() string
	Close() error
}

// maxBindTries is how often free consecutive ports are looked for.
const maxBindTries = 32

// bindRanks binds one socket for each stream, at consecutive ports. With port 0
// the first is any free one from which on there are enough.
func bindRanks(endpoint string, streams []*kvStream, bind func(*kvStream, string) (bound, error)) error {
	host, port, err := splitEndpoint(endpoint)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := bindFrom(host, port, streams, bind)
		if err == nil || port != 0 || try == maxBindTries {
			return err
		}
	}
}

func bindFrom(host string, port int, streams []*kvStream, bind func(*kvStream, string) (bound, error)) error {
	var all []bound
	for i, s := range streams {
		b, err := bind(s, "tcp://"+net.JoinHostPort(host, strconv.Itoa(port+i)))
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
func endpoints(ln net.Listener, streams []*kvStream) Endpoints {
	e := Endpoints{HTTP: ln.Addr().String()}
	if len(streams) > 0 {
		e.KVEvents = streams[0].publisher.Endpoint()
		if streams[0].router != nil {
			e.KVReplay = streams[0].router.Endpoint()
		}
	}
	return e
}
