// Package replication makes the session bindings of several replicas converge.
//
// A [Core] is a state machine without goroutines and without a clock: it is told
// what happened here ([Core.Local]), what came from the network ([Core.Receive])
// and what time it is ([Core.Tick]), and says what to send ([Core.Flush]). A
// [Runner] drives one over a [Transport].
//
// What holds: once the network is whole and nothing new happens, every replica
// holds the same binding for every session, whatever was lost, doubled,
// reordered or delayed before. The merge is affinity's; losses are repaired by
// comparing digests every few seconds and by nothing else.
package replication
