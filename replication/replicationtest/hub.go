package replicationtest

import (
	"fmt"
	"sync"

	"mooring/replication"
)

// Hub joins transports in memory: each message reaches all others at once, unless
// their queue is full. It is safe for concurrent use.
type Hub struct {
	mu    sync.Mutex
	nodes []*Node
}

// Node is a replication.Transport on a Hub.
type Node struct {
	hub       *Hub
	name      string
	in        chan replication.Message
	connected chan struct{}
	closed    bool // guarded by hub.mu
}

// hubQueue is how many messages wait for one node before more are dropped.
const hubQueue = 4096

// Join adds a node, "node1" the first, and tells all that somebody connected.
func (h *Hub) Join() *Node {
	n := &Node{hub: h, in: make(chan replication.Message, hubQueue), connected: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes = append(h.nodes, n)
	n.name = fmt.Sprint("node", len(h.nodes))
	for _, other := range h.nodes {
		select {
		case other.connected <- struct{}{}:
		default:
		}
	}
	return n
}

// Publish implements replication.Transport.
func (n *Node) Publish(m replication.Message) {
	m.From = n.name
	n.hub.mu.Lock()
	defer n.hub.mu.Unlock()
	for _, other := range n.hub.nodes {
		if other == n || other.closed || n.closed {
			continue
		}
		select {
		case other.in <- m:
		default:
		}
	}
}

// Receive implements replication.Transport.
func (n *Node) Receive() <-chan replication.Message { return n.in }

// Connected implements replication.Transport.
func (n *Node) Connected() <-chan struct{} { return n.connected }

// Close implements replication.Transport.
func (n *Node) Close() error {
	n.hub.mu.Lock()
	defer n.hub.mu.Unlock()
	if !n.closed {
		n.closed = true
		close(n.in)
	}
	return nil
}
