// Package index holds which blocks of which prompts are in which worker's cache,
// and answers how much of a prompt each worker already has.
//
// A [Set] has one [Index] for each partition. An Index is a tree over local block
// hashes (package blockhash): a node stands for a block together with all blocks
// before it, and records which owners hold it in which tier. Look-ups walk the
// tree by local hashes. Events name blocks by the engine's own, external hashes,
// which mean something only beside their owner: each owner has a table from its
// external hashes to nodes. Two engines with different hashes for the same tokens
// therefore meet in one node.
//
// # Owners
//
// What is stored counts for nobody by itself. A look-up takes a
// [kvstate.Projection], and only blocks of projected owners match, for the worker
// that the owner projects to. To project an owner, or to stop, touches nothing
// here.
//
// # Rules
//
//   - A store whose parent is unknown is kept as an orphan and takes its place
//     once the parent is known. An owner has up to 4,096 orphans; its oldest go
//     for newer ones, and for other blocks of its own when there is no room.
//   - A block that the owner holds under another parent or with other tokens ends
//     the chain there.
//   - In the worker domain a block is held in a tier until it was removed as often
//     as it was stored. In the cache-owner domain the first remove ends it.
//   - A removed block leaves its descendants. They match again once the hole is
//     filled.
//   - At MaxBlocks, or at the greatest number of owners, the owner that stored
//     least recently, other than the one that stores now, loses all it has. If
//     there is no other, or only orphans are to be stored, the rest of the store
//     is refused. Everything lost is counted. MaxBlocks should be more than what
//     the partition's caches hold together: below that, owners lose their data in
//     turn.
//   - All blocks have one size in tokens. While there are none, a store of another
//     size may change it, unless it is configured. Which windows the hashes cover is
//     known by owner, and of those that have blocks now.
//
// # Concurrency
//
// All methods may be called from any goroutine. Look-ups take no lock and never
// wait. Updates of one Index exclude each other, for at most some hundred blocks
// at a time. A look-up beside an update sees any part of it. Updates of one owner
// are meant to come from one goroutine; they apply in the order in which they
// get there.
package index
