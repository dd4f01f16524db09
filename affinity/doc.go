// Package affinity keeps conversations where their KV cache is: it remembers
// which worker, or which rank of a worker, each session is bound to.
//
// # What it owns
//
// A [Table] holds the sessions of one partition; a [Resolver] holds the tables,
// one for each partition that the fleet has. Choosing a worker for a new session
// is the caller's business: Acquire either returns the bound target or makes the
// caller the session's initialiser, who chooses, calls [Lease.Bind], and at the
// end of the request [Lease.Release].
//
//	lease, err := table.Acquire(ctx, session, fleet.Target{})
//	if err != nil {
//		return err
//	}
//	defer lease.Release(outcome)
//	target, bound := lease.Target()
//	if !bound {
//		target = choose()
//		if err := lease.Bind(target); err != nil {
//			return err
//		}
//	}
//
// # What holds
//
//   - A bound target that Acquire returns was schedulable at that moment: the
//     fleet's view is read in the same critical section as the binding.
//   - While somebody initialises a session, others wait for the result, at most
//     until their context ends; an initialiser that takes longer than
//     Config.InitTimeout loses its turn.
//   - A request that is refused changes nothing: no lease, no deadline, no event.
//   - A binding ends by idle expiry, by its worker not being schedulable when
//     asked, by an operator, by a newer version, or by a first bind that never
//     reached its worker. Nothing else ends it: new sessions never push out old ones.
//   - Expiry is exact. A binding is there one nanosecond before its deadline and
//     absent at it, for every method, whether or not it has been swept. A live
//     lease keeps its binding however long it lives.
//   - Versions of one session only grow.
//
// # Concurrency
//
// All methods of Resolver and Table are safe for concurrent use. Only Acquire
// blocks, and only as said above; nothing waits for the network. Config.Publish
// is called without any lock held. Waiting costs no goroutine.
//
// # Time
//
// Deadlines are monotonic and local; the wall clock only seeds versions. The
// transitions of one session are plain functions of its state and the time, in
// transition.go; locks and waiting are in shard.go and table.go.
package affinity
