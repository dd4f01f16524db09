package zmqsock

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// pending are the connections whose handshake is not over, oldest first. It is
// bounded without refusing newcomers: an address that holds many connections
// open pushes out its own oldest, so who finishes quickly always gets in.
type pending struct {
	limit int
	mu    struct {
		sync.Mutex
		list   []entrant
		closed bool
	}
}

type entrant struct {
	conn net.Conn
	addr netip.Addr
}

// add takes c in, or reports false because all has been closed. Whoever had to
// make room is returned, for the caller to close.
func (p *pending) add(c net.Conn) (pushedOut net.Conn, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, false
	}
	p.mu.list = append(p.mu.list, entrant{c, remoteAddr(c)})
	if len(p.mu.list) <= p.limit {
		return nil, true
	}
	held := make(map[netip.Addr]int, len(p.mu.list))
	most := 0
	for _, e := range p.mu.list {
		held[e.addr]++
		most = max(most, held[e.addr])
	}
	i := slices.IndexFunc(p.mu.list, func(e entrant) bool { return held[e.addr] == most })
	pushedOut = p.mu.list[i].conn
	p.mu.list = slices.Delete(p.mu.list, i, i+1)
	return pushedOut, true
}

// remove reports whether c was still there: not pushed out and not closed.
func (p *pending) remove(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.mu.list, func(e entrant) bool { return e.conn == c })
	if i < 0 {
		return false
	}
	p.mu.list = slices.Delete(p.mu.list, i, i+1)
	return true
}

// close empties the list for good and returns what was in it.
func (p *pending) close() []entrant {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.mu.list
	p.mu.list, p.mu.closed = nil, true
	return list
}
