// Package routing decides, for one request, which worker it goes to.
//
// A Router reads the request's headers and, only where the partition cannot be
// known without it, its body; asks the session table (affinity) whether the
// session is bound; and chooses a worker for what is not. The result is a Route,
// which holds the session's lease and counts as load until Release.
//
// # Choice
//
// A session that is bound goes where it is bound, and costs neither a body nor a
// tokenizer. For all others, where the partition has KV state, the prompt is made
// into blocks: from token ids in the body, or by a tokenizer. Each candidate then
// has a cost (Weights): what it must compute beyond what it holds, and what it has
// to do already, as far as this replica put it there or the worker says so
// (Figures). The least cost wins; ties break by a hash. Choosing and counting are
// one step. Without KV state or tokens the fewest requests win.
//
// Whether the body is read: NeedsBody, if the partition cannot be known without it;
// WantsBody, if it would make a better choice. What is wrong with a body that is
// only wanted never refuses a request.
//
// # Waiting
//
// Route waits for the tokenizer, at most its deadline and never for a bound session,
// and where the session table does: for another request that is choosing for the
// same session, and for a gone worker's return where the configuration says so;
// always within the caller's context. A Router is safe for concurrent use.
package routing
