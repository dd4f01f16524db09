// Package routing decides, for one request, which worker it goes to.
//
// A Router reads the request's headers and, only where the partition cannot be
// known without it, its body; asks the session table (affinity) whether the
// session is bound; and chooses a worker for what is not. The result is a Route,
// which holds the session's lease and counts as load until Release.
//
// Nothing here waits for the network. Route waits only where the session table
// does: for another request that is choosing for the same session, and for a
// gone worker's return where the configuration says so; always within the
// caller's context. A Router is safe for concurrent use.
package routing
