// Package simworker is a simulated OpenAI-compatible LLM worker: the HTTP API,
// the metrics and the prefix cache of a vLLM server, without a model. Demos,
// tests and load runs use it wherever Mooring needs something to route to.
//
// What it takes from vLLM, because routing depends on it: data-parallel ranks
// chosen by the X-data-parallel-rank header, a prefix cache of full blocks per
// rank with least-recently-used eviction, at least one prompt token computed
// for every request, generated tokens cached like prompt tokens (except the
// last one, whose KV is never computed), /tokenize, /detokenize and the metric
// names. What it leaves out: sampling, stop strings, log probabilities, batch
// prompts, and preemption: a request takes all its blocks when it starts to
// run, and waits until they are free.
//
// Everything is deterministic. The tokenizer maps text to ids without a
// vocabulary, the chat template puts a turn's prompt and reply at the front of
// the next turn's prompt, and the reply is a function of the prompt alone. So
// a conversation in which the client sends the reply back reuses exactly the
// full blocks of the turn before, on the same rank of the same worker, and
// nothing anywhere else; usage.prompt_tokens_details.cached_tokens says which.
//
// With KVEvents it publishes what its caches hold as a vLLM server does: one
// PUB socket a rank, batches numbered in the order of the changes, a bounded
// queue between the engine and the socket, and a bounded buffer that a ROUTER
// socket repeats. A pool in host memory, if there is one, outlives the engine.
//
// With StateAgent the durable half of the KV pool stands behind each rank: it
// advertises itself in a directory of records, attaches the engine under a
// generation that grows with each engine, numbers every change, publishes it,
// and answers status and recovery questions. Its state follows the engine
// through the same queue as the KV events.
//
// The package starts no goroutine except inside Serve, which returns when all
// of them have ended.
package simworker
