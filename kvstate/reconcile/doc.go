// Package reconcile keeps the residency projection, and the block index behind it,
// in step with who is there: it reads discovery, asks state agents, recovers what
// was missed, and has kvstate.Resolve decide, owner by owner, what look-ups may
// see. It decides nothing of that kind itself.
//
// # Sources
//
// The configuration: every rank of a listed worker with kv_events is a cache owner
// whose feed (package feed) runs here. Its identity is derived from the worker's id
// and the rank, so it is the same on every replica. While the worker is listed its
// feed runs and its index is kept; when it is listed no more both end.
//
// A directory of JSON records, one file <dir>/<topic>/<record id>.json for each
// record of kv-state-sources-v2 and kv-state-attachments-v2, written under another
// name and renamed. A record has 64 KiB at most and never changes: another payload
// under its id is refused, the first stays until the file leaves. While the
// directory cannot be read, or a topic's directory has left, every owner of it is
// watch_uncertain; it is tried for ever. What is there when it is back replaces what
// was there before, also under the same id. A file may be a link. A topic has 32,768
// records at most, and 65,536 files are remembered; further ones wait for room.
//
// The two come to the core in different ways, and have no interface in common. The
// directory says updates, as would any further source of records: all there is,
// then changes, or that it is uncertain now. Status and receipt, which Resolve needs
// besides, the owner's agent is asked for. A feed says all of this at once, as one
// testimony that replaces the one before: it is never uncertain, nobody has to be
// asked, and a record never meets the status of another moment. It also starts and
// ends in step with who writes the index, of which records know nothing.
//
// # Agents
//
// The agent of a record whose control target is {"http": URL} is asked by POST of a
// query as JSON: for its status every 2 s (5 s time-out, 64 KiB, 16 at once to one
// host and 256 altogether), for its state if what is held is not that of its
// attachment (512 MiB, 2 Mi events with 8 Mi hashes), and for events that are
// missing (64 MiB, else for its state). Of each of the latter two a host is asked
// one at once and 32 altogether, and two are read at once; an answer has 30 s to
// begin, and 30 s to end from when it is its turn. A failed attempt is repeated
// after 100 ms, doubling to 5 s. A status that has not come 7 s after it was due
// counts as failed, whoever is asked meanwhile.
//
// Its live events come from the ZeroMQ PUB socket that its status names in
// event_endpoint: three frames, the topic kv-state-events-v2, an 8-byte big-endian
// batch number, and a MessagePack array of events. Without one, each status fetches
// what has happened. Targets of other kinds cannot be asked: such owners are
// endpoint_unreachable.
//
// # Rules
//
//   - A change looks at the owners it touches and at no other.
//   - An owner whose agent does not answer is not projected; what is held for it
//     stays. It is cleared when its source is withdrawn, and, a minute after its
//     publisher was replaced, unless the new one's state has taken its place.
//   - The blocks of an engine are cleared when it is detached, replaced by another
//     generation, or its worker is listed no more.
//   - Events are applied in order and once. If some are missing the owner is holed,
//     later ones wait, and the missing are asked for; the full state is asked for
//     only if the agent does not have them any more.
//   - An event or a recovery that is not the owner's own, or whose receipt says
//     another cursor than it has, withdraws it until a full state is there. Who
//     answers a status in its agent's place is not listened to.
//   - Several owners may name one worker, and are projected to it; but only the
//     first writes the worker's own blocks. When it leaves, or its agent does not
//     answer, the others are holed until one has its full state anew and takes over.
//     A feed always writes.
//
// # Concurrency
//
// One goroutine, that of Run, owns all state; exported methods take its lock, which
// is never held while anything is waited for. The projection and the index are read
// without it.
package reconcile
