// Package benchhit compares ways of choosing a worker on one made-up trace: how
// much of the prompts is served from cache, and how long the first token takes.
// It has tests only, since its clock is testing/synctest's: the same seed gives
// the same numbers on every machine. `make bench-hit` prints the whole comparison.
// Mooring's part is the real router, session table and block index; only the
// workers and the clients are simulated.
//
// # The trace
//
// Conversations arrive as a Poisson process whose rate grows with the number of
// workers, so that each fleet is about as busy as the others. A conversation
//   - has one of 24 system prompts, by a Zipf law (exponent 1.1), log-normal
//     lengths with median 600 tokens, 100 to 4,000;
//   - with probability 0.4 quotes one of 150 documents (Zipf, 1.05), log-normal
//     with median 2,500 tokens, 300 to 16,000;
//   - has a geometric number of turns with mean 5, at most 24. A question has a
//     log-normal length with median 60 tokens (5 to 1,500), a reply one with
//     median 180 (5 to 1,200); between a reply and the next question pass
//     exponential 15 s.
//
// The prompt of a turn is everything said before and the question.
//
// # The routers
//
// Round robin; least requests; sticky only, which chooses by least requests once
// for each conversation; Mooring; and two to compare with. One that is all-knowing
// sees every queue and every cache and takes, for every turn, the worker with the
// earliest first token: greedy, so that what its choice does to later turns can
// make it worse than another. The bound is no router: all that was ever computed is
// in cache, and nobody waits. Loss and the number of workers do not concern it.
//
// # The workers
//
// A worker computes one prompt at a time, in order of arrival, at 8,000 tokens a
// second, those apart that its prefix cache holds when it begins; then it
// generates beside all others at 25 ms a token. Its cache has blocks of 16 tokens
// and evicts the least recently used one, the end of a prompt before its
// beginning. Blocks in use are not protected.
//
// The lost worker dies with its cache and its requests when half of the
// conversations have arrived, and an empty one takes its place after 30 s; the
// requests that it had are sent again at once, as by a client that retries. With
// a single worker they wait for the new one.
package benchhit
