// Package envoyproc runs one real Envoy as a child process: it finds the
// binary, starts it on a bootstrap, waits until its listeners are open, reads
// its admin API and stops it. The demo and the end-to-end tests use it.
//
// It knows nothing of Mooring's configuration (package envoy makes that) and
// nothing of Envoy's protos: the bootstrap is bytes to it. The bootstrap must
// have an admin address, which may be on port 0 like every listener.
package envoyproc
