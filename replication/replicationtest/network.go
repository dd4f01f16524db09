// Package replicationtest is a network in memory that loses, doubles, reorders
// and delays messages, and can be cut, in time that the caller tells.
package replicationtest

import (
	"math/rand/v2"
	"time"

	"mooring/replication"
)

// Network joins nodes 0, 1, 2, ... It is not safe for concurrent use. Its choices
// follow from Rand alone. The zero rates make a perfect network.
type Network struct {
	Rand      *rand.Rand
	Loss      float64       // part of the messages that are lost, per receiver
	Duplicate float64       // part that comes twice
	MinDelay  time.Duration // of each message
	MaxDelay  time.Duration // more than MinDelay reorders

	cut     map[[2]int]bool
	flights []flight
	sent    int
}

type flight struct {
	at  time.Time
	to  int
	msg replication.Message
}

// Cut stops all messages between two nodes; those on their way arrive.
func (n *Network) Cut(a, b int) {
	if n.cut == nil {
		n.cut = make(map[[2]int]bool)
	}
	n.cut[[2]int{a, b}], n.cut[[2]int{b, a}] = true, true
}

// Heal undoes every Cut.
func (n *Network) Heal() { clear(n.cut) }

// Send takes messages of one node on their way to all others of nodes.
func (n *Network) Send(now time.Time, from, nodes int, msgs []replication.Message) {
	for _, m := range msgs {
		n.sent++
		for to := range nodes {
			if to == from || n.cut[[2]int{from, to}] {
				continue
			}
			n.Fly(now, to, m)
			if n.Rand.Float64() < n.Duplicate {
				n.Fly(now, to, m)
			}
		}
	}
}

// Fly takes one message on its way to one node, unless it is lost.
func (n *Network) Fly(now time.Time, to int, m replication.Message) {
	if n.Rand.Float64() < n.Loss {
		return
	}
	delay := n.MinDelay
	if spread := n.MaxDelay - n.MinDelay; spread > 0 {
		delay += time.Duration(n.Rand.Int64N(int64(spread)))
	}
	n.flights = append(n.flights, flight{now.Add(delay), to, m})
}

// Deliver calls receive for each message that has arrived by now.
func (n *Network) Deliver(now time.Time, receive func(to int, m replication.Message)) {
	kept := n.flights[:0]
	for _, f := range n.flights {
		if f.at.After(now) {
			kept = append(kept, f)
			continue
		}
		receive(f.to, f.msg)
	}
	clear(n.flights[len(kept):])
	n.flights = kept
}

// Sent returns how many messages nodes have sent so far.
func (n *Network) Sent() int { return n.sent }
