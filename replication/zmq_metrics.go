package replication

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// meshTally counts what becomes of messages and connections.
type meshTally struct {
	refused  [refusals]prometheus.Counter
	lost     *prometheus.CounterVec // connections to peers, by zmqsock.Reason
	overflow atomic.Uint64          // messages of links that have ended which found a full queue
	unbound  prometheus.Counter     // messages published while the port was taken

	refusedVec *prometheus.CounterVec
}

func newMeshTally() *meshTally {
	t := &meshTally{
		refusedVec: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_mesh_refused_total", Help: "Messages that are none of the mesh, by what is wrong with them.",
		}, []string{"reason"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_mesh_lost_total", Help: "Connections to peers that were lost, and attempts in vain, by reason.",
		}, []string{"reason"}),
		unbound: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mooring_mesh_unbound_total", Help: "Messages that were not sent since the mesh port was taken.",
		}),
	}
	for r := wrongFrames; r < refusals; r++ {
		t.refused[r] = t.refusedVec.WithLabelValues(r.String())
	}
	return t
}

// meshCollector shows a mesh as it is when it is asked.
type meshCollector struct {
	z *ZMQ
	r *Runner

	listening, subscribers, dropped, closed, joined *prometheus.Desc
	connected, refused, heard, holes, differing     *prometheus.Desc
}

// RegisterMesh registers the metrics of a mesh and of who runs on it. Labels are
// endpoints of the configuration, and closed lists.
func RegisterMesh(z *ZMQ, r *Runner, to prometheus.Registerer) error {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mooring_"+name, help, labels, nil)
	}
	c := &meshCollector{
		z: z, r: r,
		listening:   desc("mesh_listening", "Whether the mesh port is bound."),
		subscribers: desc("mesh_subscribers", "Peers that are connected to the mesh port."),
		dropped:     desc("mesh_dropped_total", "Messages that found a full queue, by direction; digests repair what they carried.", "direction"),
		closed:      desc("mesh_closed_total", "Connections to the mesh port that ended or were refused, by reason.", "reason"),
		joined:      desc("mesh_joined", "1 for how far the joining is: joining, digest (peers answered and were repaired) or timeout.", "by"),
		connected:   desc("peer_connected", "Whether a configured peer is connected.", "endpoint"),
		refused:     desc("peer_refused", "Whether the latest message from a configured peer was refused for its signature, or for having one.", "endpoint"),
		heard:       desc("peer_heard_seconds", "Time since the last message of a replica at a configured peer's endpoint.", "endpoint"),
		holes:       desc("peer_holes", "Messages of the peer that never came.", "endpoint"),
		differing:   desc("peer_differing", "Sessions that differed at the peer's last digests, estimated.", "endpoint"),
	}
	var errs []error
	for _, m := range []prometheus.Collector{z.tally.refusedVec, z.tally.lost, z.tally.unbound, c} {
		errs = append(errs, to.Register(m))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register mesh metrics: %w", err)
	}
	return nil
}

// overflowed returns how many messages of peers found a full queue.
func (z *ZMQ) overflowed() uint64 {
	z.mu.Lock()
	defer z.mu.Unlock()
	n := z.tally.overflow.Load()
	for _, l := range z.mu.links {
		n += l.socket.Stats().Dropped
	}
	return n
}

// Describe implements prometheus.Collector.
func (c *meshCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.listening, c.subscribers, c.dropped, c.closed, c.joined, c.connected, c.refused, c.heard, c.holes, c.differing} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *meshCollector) Collect(metrics chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	out := 0.0
	if p := c.z.publisher.Load(); p == nil {
		show(c.listening, prometheus.GaugeValue, 0)
	} else {
		stats := p.Stats()
		out = float64(stats.Dropped)
		show(c.listening, prometheus.GaugeValue, 1)
		show(c.subscribers, prometheus.GaugeValue, float64(stats.Peers))
		for reason, n := range stats.Ended {
			show(c.closed, prometheus.CounterValue, float64(n), reason.String())
		}
	}
	show(c.dropped, prometheus.CounterValue, out, "out")
	show(c.dropped, prometheus.CounterValue, float64(c.z.overflowed()), "in")
	status := c.r.Status()
	for _, by := range []Join{Joining, JoinedByDigest, JoinedByTimeout} {
		show(c.joined, prometheus.GaugeValue, number(status.Join == by), by.String())
	}
	now := time.Now()
	for _, p := range status.At(c.z.Links()) {
		show(c.connected, prometheus.GaugeValue, number(p.Connected), p.Endpoint)
		show(c.refused, prometheus.GaugeValue, number(p.Distrust != Trusted), p.Endpoint)
		if p.SenderID == 0 {
			continue
		}
		show(c.heard, prometheus.GaugeValue, now.Sub(p.LastHeard).Seconds(), p.Endpoint)
		show(c.holes, prometheus.GaugeValue, float64(p.Holes), p.Endpoint)
		show(c.differing, prometheus.GaugeValue, float64(p.Differing), p.Endpoint)
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
