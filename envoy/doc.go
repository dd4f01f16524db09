// Package envoy makes the Envoy configuration that attaches Mooring: the whole
// bootstrap, the pieces to paste into an existing one, and the file of endpoints
// (EDS) that tells Envoy which workers exist.
//
// What the generated configuration promises, whatever its settings:
//
//   - A request goes to the address that Mooring put into dynamic metadata, or
//     nowhere: an unknown or missing address is a 503, never another worker.
//   - No header that a client sends takes part in that choice.
//   - Nothing is retried on another worker.
//   - Mooring can change no headers but those that it and Dynamo define.
//
// Each resource has its makeX function. Bootstrap and its kin are pure
// functions of their Config; only WriteEndpoints and KeepEndpoints touch the
// file system. Everything is safe for concurrent use.
package envoy
