// Package extproc is Envoy's side of Mooring: the ext_proc stream of every
// request, its answers, and how the end of a request is learnt.
//
// # The stream
//
// A machine is one stream's protocol as a plain struct: messages and decisions
// go in, answers come out. An exchange is the machinery around it: one goroutine
// receives, the handler decides and answers, and a third sends as soon as an
// answer could block. So a client that leaves is noticed while a decision waits,
// and a blocked send does not stop receiving before its bounded queue is full;
// from there on gRPC's flow control holds Envoy, and Envoy the client.
//
// Until the pick is answered every ending is closed: an immediate response or a
// status that is not OK. A clean end would let the request through unpinned.
// Envoy ends a stream that it is done with by EOF, by a reset or by both; these
// are one event here and never an error.
//
// # Memory
//
// Bodies are held only where the decision needs them, or a new session's is better
// with them: at most Config.MaxBodyBytes for a stream and Config.MaxBufferedBytes
// for all together (twice that for the moment in which a growing body is moved, and
// one message more where a body turns out to be too long to wait for). On top of it
// a stream takes at most five received messages and 256 KiB of body on its way back.
//
// # The end of a request
//
// The stream ends when the request is on its way, long before its response does.
// A ledger keeps every route from before its pick is answered until its end is
// reported: by Envoy's access log, which this package serves too and which
// carries the lease's number in its metadata; by the stream, where Config.End
// says so; or by the clock. The first report counts, all others do nothing.
package extproc
