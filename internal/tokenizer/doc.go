// Package tokenizer asks an inference server which tokens a prompt is, by
// POST /tokenize as vLLM has it.
//
// A call is on the path of a request that waits, and a missing answer only costs
// the choice of a worker some quality. So everything here is bounded and nothing
// is tried twice: the deadline is short, at most so many calls run at once, an
// endpoint that keeps failing is left alone for a while (a circuit breaker each),
// an answer has a longest length, and answers are kept in a bounded cache under
// a hash of what was asked. Each call ends in one Outcome, which is counted.
//
// Prompts appear in no error, log or metric.
package tokenizer
