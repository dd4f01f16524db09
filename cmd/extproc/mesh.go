package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/affinity"
	"mooring/extproc"
	"mooring/internal/admin"
	"mooring/internal/config"
	"mooring/replication"
)

// mesh is a replica's part in the replication of bindings.
type mesh struct {
	id, writer uint64
	core       *replication.Core
	transport  *replication.ZMQ
	runner     *replication.Runner
	rejoining  atomic.Bool // since the process was stopped
}

// newMesh binds the mesh port, or will as soon as it is free. ended is told of
// requests of this replica's whose end another one heard of.
func newMesh(cfg *config.Config, id uint64, sessions *affinity.Resolver, ended func(replication.End), logger *slog.Logger, metrics prometheus.Registerer) (*mesh, error) {
	c := cfg.Replication
	m := &mesh{id: id, writer: writerID(cfg, id)}
	signer, err := meshSigner(c.KeyFile, id)
	if err != nil {
		return nil, err
	}
	m.transport, err = replication.NewZMQ(replication.ZMQConfig{Listen: c.Listen, Peers: c.Peers, Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("replication: %w", err)
	}
	m.core, err = replication.New(time.Now(), replication.Config{
		Sessions: sessions, SenderID: id, WriterID: m.writer,
		PublishV1:    slices.Contains(c.Publish, config.TopicV1),
		MaxClockSkew: c.MaxClockSkew, DigestEvery: c.DigestInterval, SyncTimeout: max(c.SyncTimeout, 1), // 0 would be the default
		Links: m.transport.Links, Ended: ended, Registerer: metrics,
	})
	if err == nil {
		m.runner = replication.NewRunner(m.core, m.transport, signer, logger)
		err = replication.RegisterMesh(m.transport, m.runner, metrics)
	}
	if err != nil {
		m.transport.Close()
		return nil, err
	}
	return m, nil
}

// writerID returns who this replica's versions are by.
func writerID(cfg *config.Config, replica uint64) uint64 {
	if w := cfg.Replication.WriterID; w != 0 {
		return w
	}
	return replica
}

// meshSigner returns nil if there is no key file.
func meshSigner(file string, id uint64) (*replication.Signer, error) {
	if file == "" {
		return nil, nil
	}
	key, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("replication.key_file: %w", err)
	}
	signer, err := replication.NewSigner(bytes.TrimSpace(key), id, time.Now())
	if err != nil {
		return nil, fmt.Errorf("replication.key_file: %s: %w", file, err)
	}
	return signer, nil
}

// run replicates until ctx ends. What waits then is still sent.
func (m *mesh) run(ctx context.Context) error {
	defer m.transport.Close()
	return m.runner.Run(ctx)
}

// alone reports whether there are no peers but this replica itself: then there is
// nothing to wait for, and nothing to miss.
func (m *mesh) alone() bool {
	status := m.runner.Status()
	return len(status.At(m.transport.Links())) == 0
}

// join waits until the peers' bindings are here, or the sync timeout has passed.
func (m *mesh) join(ctx context.Context) error {
	if m.alone() {
		return nil
	}
	return m.runner.Joined(ctx)
}

// rejoin does so anew, for a process that was stopped: what waits in its sockets
// is old, and may end before what it missed.
func (m *mesh) rejoin(ctx context.Context) error {
	m.rejoining.Store(true)
	defer m.rejoining.Store(false)
	m.transport.Reset()
	if err := m.runner.Rejoin(ctx); err != nil {
		return err
	}
	return m.join(ctx)
}

// endElsewhere passes on an end that reached this replica and is another's.
func (m *mesh) endElsewhere(e extproc.RemoteEnd) bool { return m.runner.End(replication.End(e)) }

// endpoint returns where the mesh port is bound, for the log.
func (m *mesh) endpoint() string {
	endpoint, err := m.transport.Endpoint()
	if err != nil {
		return ""
	}
	return endpoint
}

// state returns how the joining went, for /readyz.
func (m *mesh) state() string {
	if m.alone() {
		return "alone"
	}
	return m.runner.Status().Join.String()
}

// warnings says what is wrong with the mesh although requests are served.
func (m *mesh) warnings() (warnings []string) {
	if _, err := m.transport.Endpoint(); err != nil {
		warnings = append(warnings, fmt.Sprintf("replication: peers do not hear this replica: %v; trying again each second", err))
	}
	status := m.runner.Status()
	links := m.transport.Links()
	peers := status.At(links)
	// A link to this replica itself is none to a peer, and subscribes like one.
	warnings = append(warnings, unheardBy(peers, m.transport.Subscribers()-(len(links)-len(peers)), time.Now())...)
	var down []string
	for _, p := range peers {
		if p.Connected {
			warnings = append(warnings, unheard(&p)...)
		} else {
			down = append(down, p.Endpoint)
		}
	}
	if len(down) > 0 {
		warnings = append(warnings, notConnected(down, len(peers)))
	}
	if len(peers) > 0 && status.Join == replication.JoinedByTimeout && !status.Converged {
		warnings = append(warnings, "replication: ready since replication.sync_timeout passed, not since a peer's bindings are here")
	}
	for _, p := range status.Peers {
		if p.WriterID == m.writer && time.Since(p.LastHeard) < 5*time.Second {
			warnings = append(warnings, fmt.Sprintf("replication: replica %d has this replica's replication.writer_id %d; each needs its own", p.SenderID, m.writer))
		}
	}
	return warnings
}

// notConnected names some of the peers that are down.
func notConnected(down []string, peers int) string {
	const most = 3
	if len(down) == peers {
		return fmt.Sprintf("replication: none of %d peers is connected; this replica serves alone", peers)
	}
	more := ""
	if n := len(down) - most; n > 0 {
		down, more = down[:most], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("replication: %s%s of %d peers not connected", strings.Join(down, ", "), more, peers)
}

// dialledWithin is how long a peer that is connected may take to dial this replica.
const dialledWithin = 5 * time.Second

// unheardBy says that fewer peers have subscribed here than speak: some that this
// replica dials do not dial it, and never learn of its bindings.
func unheardBy(peers []replication.PeerAt, subscribers int, now time.Time) []string {
	speak := 0
	for _, p := range peers {
		if p.Connected && now.Sub(p.Since) >= dialledWithin && p.WriterID != 0 && now.Sub(p.LastHeard) < dialledWithin {
			speak++
		}
	}
	if subscribers >= speak {
		return nil
	}
	return []string{fmt.Sprintf("replication: %d peers are heard, and only %d of them hear this replica; is its address in the replication.peers of all?", speak, max(0, subscribers))}
}

// unheard says why nothing of a connected peer's gets here.
func unheard(p *replication.PeerAt) []string {
	if p.Distrust != replication.Trusted {
		return []string{fmt.Sprintf("replication: peer %s: its messages %v (replication.key_file)", p.Endpoint, p.Distrust)}
	}
	since, quiet := p.Quiet(time.Now())
	switch {
	case !quiet:
		return nil
	case p.Spoke.IsZero():
		return []string{fmt.Sprintf("replication: peer %s: connected, and nothing has come from it; is it the mesh port of a replica?", p.Endpoint)}
	}
	return []string{fmt.Sprintf("replication: peer %s: connected, and not heard for %v", p.Endpoint, since.Round(time.Second))}
}

// peers says for /v1/peers what is known of the configured peers.
func (m *mesh) peers() []admin.Peer {
	now := time.Now()
	status := m.runner.Status()
	known := status.At(m.transport.Links())
	peers := make([]admin.Peer, len(known))
	for i, p := range known {
		peers[i] = admin.Peer{
			Endpoint: p.Endpoint, ReplicaID: p.SenderID, Connected: p.Connected, Holes: p.Holes, Differing: p.Differing, ConvergedSince: p.ConvergedSince,
		}
		if p.SenderID != 0 {
			peers[i].Heard, peers[i].LastHeard = true, max(0, now.Sub(p.LastHeard))
		}
	}
	return peers
}
