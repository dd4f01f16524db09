package zmqsock

import (
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// poor is a listener of a process that has no descriptors left.
type poor struct {
	net.Listener
	tries int
}

func (p *poor) Accept() (net.Conn, error) {
	p.tries++
	return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
}
func (p *poor) Close() error { return nil }

// Without descriptors the accept loop waits, it does not spin.
func TestAcceptWaitsForDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &poor{}
		p := &Publisher{ended: func() bool { return true }}
		p.listener, p.closing, p.logger = l, make(chan struct{}), orDiscard(nil)
		p.peers.Store(new([]*peer))
		p.all.Go(func() { p.accept(p.converse) })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if l.tries < 20 || l.tries > 40 {
			t.Errorf("%d tries in 20 s", l.tries)
		}
		p.Close()
	})
}
