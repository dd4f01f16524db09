package e2e

import "testing"

// TestKVStateIsThereWhenTheReplicaIs restarts the replica: once it says that it is
// ready, the first conversation goes to what it shares with those before.
func TestKVStateIsThereWhenTheReplicaIs(t *testing.T) {
	t.Parallel()
	s := newKVStack(t, stackConfig{models: []string{"sim", "sim"}, flagsOfEach: [][]string{kvSockets(), append(kvSockets(), "--kv-replay-delay", "300ms")}})
	s.seed(s.workers[0].address, "Astronomy")
	s.seed(s.workers[1].address, "Botany")
	s.inStep(s.workers...)
	for i := range 3 {
		s.replica.kill()
		s.startReplica()
		for at, topic := range []string{"Astronomy", "Botany"} {
			if c := s.explain("at once", topic).at(t, s.workers[at]); c.Device < 26 {
				t.Errorf("start %d: at once the holder of %s counts %+v", i, topic, c)
			}
		}
	}
}
