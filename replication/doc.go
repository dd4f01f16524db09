// Package replication makes the session bindings of several replicas converge.
//
// A [Core] is a state machine without goroutines and without a clock: it is told
// what happened here ([Core.Local]), what came from the network ([Core.Receive])
// and what time it is ([Core.Tick]), and says what to send ([Core.Flush]). A
// [Runner] drives one over a [Transport].
//
// What holds, while the clocks of the replicas agree within 30 minutes and no cut
// lasts for 24 hours: once the network is whole and nothing new happens, every replica
// holds the same binding for every session, whatever was lost, doubled,
// reordered or delayed before. The merge is affinity's; losses are repaired by
// comparing digests every few seconds and by nothing else.
//
// Repair goes in steps, each of them bounded, since the goroutine that repairs is
// the one that sends new bindings. A digest that differs is followed by a want,
// which names the buckets and what is held of them here; of buckets with more than
// 256 records the sub-buckets are compared first (a hello that names a peer and
// buckets, and a digest in answer). The peer that is asked sends what is not
// named, 20,000 records a second at most.
//
// The rules that look odd are each reverted in tests, which must then find the
// failure that the rule prevents: see ablation_test.go.
package replication
