// Package zmqsock has the ZeroMQ sockets that Mooring puts on a network: a
// publisher (PUB, bound), a supervised subscriber (SUB, dialling one peer), and
// for the replay of what was published a server (ROUTER, bound) and a client
// (DEALER, one connection). It is the only importer of
// github.com/go-zeromq/zmq4.
//
// What is taken from the library and what is not: its wire codec is used
// (zmq4.Conn: greeting, READY, message decoding), always on a connection that
// a guard of ours has between the codec and TCP, and always on a goroutine of
// ours. Its socket layer is not, because some of its faults cannot be wrapped:
// zmq4.NewPub starts a goroutine that nothing can end, one queue and one
// sender serve all subscribers, the accept loop does the handshakes, and a
// panic in any of its goroutines cannot be recovered. As no zmq4.Socket is
// made, no transport has to be registered in the library's process-wide table.
//
// The guard checks every length before the codec may allocate, refuses what
// the codec would crash on, answers PING, and puts a deadline on everything
// that a peer could delay. So a peer, whatever it sends or does not send, can
// only end its own connection; Stats say how often and why.
//
// Delivery is that of PUB and SUB: messages to one peer arrive whole and in
// order, or not at all. Every queue is bounded by count and bytes; when it is
// full the newest message is dropped and counted; a subscriber can have a mark
// in the stream where that was. After each (re)connection
// there may be a gap; who needs more repairs it above.
//
// The mechanism is NULL: neither secret nor authenticated. Network policy and
// signed messages are the means for that.
package zmqsock
