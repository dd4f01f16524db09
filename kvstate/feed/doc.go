// Package feed follows the KV events of one engine rank and keeps the block
// index in step with them: it subscribes to the engine's ZeroMQ publisher,
// decodes and checks the batches, applies each sequence number at most once
// and in order, repairs gaps from the engine's replay socket, and answers as
// the rank's state agent (source, attachment, status, receipt) in process.
//
// What is trusted: nothing. A payload costs memory in proportion to its size,
// which is bounded; the decoder does not recurse; whatever an event gets wrong
// drops that event alone and counts its Reason.
//
// Holed. The index of a feed is "holed" while it may differ from the engine's
// cache: after a gap until it is repaired, for good (until the engine clears
// its cache or restarts) when it cannot be. Without a replay address a gap
// cannot be repaired, and a connection to an engine that is already running
// starts from nothing; both are holed. After a reconnection without a replay
// address the feed is holed until the next batch has the number that is due.
// (Another process that happens to be at just that number is not told apart
// then. With a replay address it is: the batch applied last is asked for again,
// and must be the same.) A batch that is no batch, or a removal that cannot be
// read, leaves a hole as well.
//
// A replay is believed as long as no live batch speaks against it: of a number
// that both bring, they must bring the same. If not, the replay address leads to
// another engine, all that it brought is forgotten, and the feed is holed. While
// live batches only repeat numbers that a replay had and none was compared, it
// is holed, too.
//
// Restart. A sequence number that goes back, or a replay that does not know
// the batch applied last, means another engine process: the worker's own
// blocks are cleared, the attachment gets the next generation, and counting
// starts over. Blocks of the cache-owner domain stay.
//
// Topics. What comes under a topic that names another worker's address is not the
// worker's (see topic.go for which do): it is dropped, what the feed stored before is
// forgotten, and the next batch under a topic that does not is taken for one of an
// engine that restarted.
//
// Namespaces. Blocks of an adapter, and of a cache salt, are hashed with it. An
// engine names the salt at the first block of a sequence only: its children
// inherit it. vLLM sends it as a bare string among the extra keys, without a
// tag, and is understood, so that salted blocks never pass for unsalted ones.
// An adapter that is known by number alone (TensorRT-LLM) is not indexed.
//
// Speculation. An engine that sends pairs of tokens hashes its blocks with the token
// after each (Eagle). So does the feed then, and it tells the index, so that prompts
// are looked up in that way too, as long as it has such blocks.
//
// An engine is one that binds its publisher; one that is told to connect to a
// subscriber cannot be followed.
//
// Ordering and blocking: Run alone changes blocks in the index, from one goroutine;
// all other methods but Forget may be called concurrently with it and do not block.
// An engine is never slowed down: what cannot be kept is dropped and makes a gap; what
// is dropped at the end of all is asked for, too, or leaves the feed holed until a
// later batch shows the gap. An idle engine is silent, so silence is no failure; a
// vanished host is noticed by TCP keep-alive.
package feed
