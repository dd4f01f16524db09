// Package admin serves what operators and their tools see of one replica: the
// admin HTTP API, Prometheus metrics and a page for people.
//
// It shows and, for pins, asks; it decides nothing and keeps no state. Everything
// it reads is safe to read while requests are routed, and nothing here is on a
// request's path.
//
//	GET /                                      the page
//	GET /healthz                               who this process is
//	GET /readyz                                200 or 503, with reasons and warnings
//	GET /metrics                               Prometheus
//	GET /v1/workers                            every worker, in every state
//	GET /v1/sessions?model=&group=&worker=&limit=&after=
//	GET, PUT, DELETE /v1/sessions/{model}/{group}/{id}
//	POST /v1/explain                           what would become of a request, changing nothing
//
// Path segments are percent-encoded, since models contain "/" and ids contain
// anything. All 64-bit ids are strings. Every refusal is
// {"error":{"type":"...","message":"..."}}.
//
// # Who may ask
//
// The API has no passwords: it listens on loopback unless told otherwise. What a
// browser could be tricked into is refused: a name in Host that might have been
// rebound to the loopback address, writes from another site, and writes that are
// not declared as JSON, which no plain HTML form can make.
package admin
