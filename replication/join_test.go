package replication_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
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

func (c *cluster) isReady(i int) bool {
	ready, _ := c.replicas[i].core.Ready()
	return ready
}
