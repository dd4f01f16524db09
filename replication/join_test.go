package replication_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
)

// Digests of replicas that bind all the time never are equal: something is always
// on its way. What differs in one digest and not in the next is no reason to wait.
func TestJoinIsNotKeptByWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, setup{seed: 1, n: 2, ttl: 30 * time.Minute})
		c.net.MinDelay, c.net.MaxDelay = 50*time.Millisecond, 60*time.Millisecond
		c.replicas[1].down = true
		n := 0
		bind := func(steps int) {
			for range steps {
				n++
				if _, err := c.open(c.replicas[0], fmt.Sprint("s", n), 1); err != nil {
					t.Fatal(err)
				}
				c.run(20 * time.Millisecond)
			}
		}
		bind(200)
		c.replicas[1].down = false
		c.start(c.replicas[1])
		for range 20 { // 8 s
			before := n
			if bind(20); c.isReady(1) {
				if _, timedOut := c.replicas[1].core.Ready(); timedOut {
					t.Error("only time made it ready")
				}
				for i := 1; i <= before; i++ {
					if _, ok := c.replicas[1].table().Lookup(fmt.Sprint("s", i)); !ok {
						t.Fatalf("session %d is missing", i)
					}
				}
				return
			}
		}
		t.Error("not ready after 8 s")
	})
}

// Repair is bounded to 20,000 records a second. A joiner that lacks more than fit
// into its sync timeout waits for them all the same.
func TestJoinWaitsForAllThatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions = 30_000
		c := newCluster(t, setup{seed: 1, n: 2, ttl: 30 * time.Minute, max: sessions, sync: time.Second})
		for i := range sessions {
			c.replicas[0].table().Apply(affinity.Event{
				Session: fmt.Sprint("s", i), Target: fleet.OnRank(1, 0), Sequence: uint64(1 + i), WriterID: 3, Life: 20 * time.Minute,
			})
		}
		c.run(time.Second)
		c.start(c.replicas[1])
		for took := time.Duration(0); !c.isReady(1); took += 100 * time.Millisecond {
			if c.run(100 * time.Millisecond); took > 5*time.Second {
				t.Fatal("not ready after 5 s")
			}
		}
		_, timedOut := c.replicas[1].core.Ready()
		if n := len(c.replicas[1].records()); n != sessions || timedOut {
			t.Errorf("ready with %d of %d bindings, timed out %v", n, sessions, timedOut)
		}
	})
}

// The want that a peer did not hear, since it was not connected yet, is said again
// when the peer says hello, and not only after seconds.
func TestHelloIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, setup{seed: 1, n: 2, ttl: 30 * time.Minute})
		if _, err := c.open(c.replicas[0], "s", 1); err != nil {
			t.Fatal(err)
		}
		a, b := c.replicas[0].core, c.replicas[1].core
		time.Sleep(time.Minute) // b is ready: nobody was there
		b.Tick(time.Now())
		b.Flush(time.Now())
		tell := func() (wants int) { // what a has to say, and how often b asks then
			now := time.Now()
			a.Tick(now)
			for _, m := range a.Flush(now) {
				if m.Topic == replication.TopicSync {
					b.Receive(now, m)
				}
			}
			for range 100 {
				b.Tick(now)
			}
			for _, m := range b.Flush(now) {
				if s, err := replication.DecodeSync(m.Payload); err == nil && s.Type == replication.Want {
					wants++
				}
			}
			return wants
		}
		a.Connected(time.Now())
		if n := tell(); n != 1 {
			t.Fatalf("%d wants for a digest that differs, want 1", n)
		}
		time.Sleep(time.Second)
		a.Connected(time.Now()) // now it would hear
		if n := tell(); n != 1 {
			t.Errorf("%d wants after a hello, want 1", n)
		}
	})
}

// A partition that appears when the joining is over was in no comparison: its
// sessions must not be without a binding until the next one.
func TestLatePartitionIsRepairedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, setup{seed: 1, n: 2, ttl: 30 * time.Minute})
		c.opened(t, c.replicas[0], "s", 100)
		c.run(time.Second)
		late := c.replicas[1]
		late.workers = 0
		c.start(late)
		for i := range 10 { // at whatever moment between two comparisons
			c.run(4*time.Second + time.Duration(i)*430*time.Millisecond)
			if !c.isReady(1) || len(late.records()) > 0 {
				t.Fatal("the one that knows no partition is not ready, or has bindings")
			}
			late.see(3)
			if c.run(700 * time.Millisecond); len(late.records()) != 100 {
				t.Fatalf("%d bindings 0.7 s after the partition appeared, want 100", len(late.records()))
			}
			late.workers = 0
			c.start(late)
		}
	})
}

// A peer whose connection comes and goes has nobody say more, to all others, than
// one that joins.
func TestFlappingPeerCostsTwoHellosASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, setup{seed: 1, n: 3, ttl: 30 * time.Minute})
		c.opened(t, c.replicas[0], "s", 10)
		c.run(20 * time.Second)
		n := make(map[replication.SyncType]int)
		c.sent = func(from int, m replication.Message) {
			if s, err := replication.DecodeSync(m.Payload); m.Topic == replication.TopicSync && err == nil && from == 0 {
				n[s.Type]++
			}
		}
		for range 10 * 20 {
			c.replicas[0].core.Connected(time.Now())
			c.run(50 * time.Millisecond)
		}
		if n[replication.Hello] < 15 || n[replication.Hello] > 22 || n[replication.DigestOf] < 15 || n[replication.DigestOf] > 22 {
			t.Errorf("%d hellos and %d digests in 10 s; want one each half second", n[replication.Hello], n[replication.DigestOf])
		}
	})
}

func (c *cluster) isReady(i int) bool {
	ready, _ := c.replicas[i].core.Ready()
	return ready
}
