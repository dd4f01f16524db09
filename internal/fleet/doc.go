// Package fleet holds the nouns that the rest of Mooring speaks in (Partition,
// Target, Worker, State) and the immutable live view of the workers.
//
// It decides nothing, starts nothing and imports the standard library only. A
// View is never changed once made, so it may be read by any number of
// goroutines; a Live hands out the newest View and tells when it was replaced.
// One owner (internal/discovery) publishes views, everyone else reads.
package fleet
