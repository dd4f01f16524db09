// Package e2e holds what is true of the whole: end-to-end tests that run the
// built binary beside a real Envoy, and the tests that hold the import graph.
// It has no code of its own.
package e2e
