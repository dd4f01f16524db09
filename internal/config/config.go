package config

import (
	"strconv"
	"time"
)

// Config is the configuration file, nested like the file. Every key has a
// default (Default), so the empty file is valid. Paths to files are absolute
// after Load, which takes relative ones from the directory of the
// configuration file; Parse leaves them as written.
type Config struct {
	Listen      Listen
	Request     Request
	Session     Session
	Workers     Workers
	Replication Replication
	KVState     KVState
	Routing     Routing
	Envoy       Envoy
	Shutdown    Shutdown
	Telemetry   Telemetry

	name  string         // the file, for messages
	lines map[string]int // the keys that the file sets, with their lines
}

// Listen says where Mooring itself listens.
type Listen struct {
	ExtProc string // gRPC for Envoy: "host:port" or "unix:///path"; port 0 takes a free one
	Admin   string // admin HTTP: "host:port"
	TLS     TLS    // of the gRPC listener
}

// TLS names the files of the gRPC listener's identity. The zero value is
// plaintext.
type TLS struct {
	CertFile     string // set together with KeyFile, or neither
	KeyFile      string
	ClientCAFile string // set: clients must show a certificate of this CA; needs the other two
}

// Request says how one request is read and how long it may take.
type Request struct {
	Model          HeaderOrDefault // the header, if set, wins over the body
	RoutingGroup   HeaderOrDefault
	ExplicitTarget bool          // clients may name a worker by header
	MaxBodyBytes   Size          // a longer body is refused
	Deadline       time.Duration // for the pick
	End            End
	MaxRequestTime time.Duration // a lease whose end was never reported ends after this
}

// HeaderOrDefault is a name that a request header gives, or else a default.
type HeaderOrDefault struct {
	Header  string // lower-case header name; "": no header
	Default string
}

// End says how Mooring learns that a response has ended.
type End string

const (
	EndAccessLog End = "access_log" // from Envoy's gRPC access log
	EndStream    End = "stream"     // from the ext_proc stream, which stays open for it
)

// Session says what a session is and how it is bound.
type Session struct {
	Headers      []string // lower-case names, in order; the first that is not blank is the session id
	Mode         Mode
	TTL          time.Duration // idle time after which a binding ends
	MaxSessions  int           // per partition
	InitTimeout  time.Duration // how long one request may take to choose a new session's worker
	OnWorkerGone WorkerGone
	WaitFor      time.Duration // how long WorkerGoneWait waits, within Request.Deadline
	Expose       bool          // tell clients worker and reason in response headers
}

// Mode says how strictly a binding is obeyed.
type Mode string

const (
	ModeHard Mode = "hard" // obeyed, or the request fails
	ModeSoft Mode = "soft" // a preference
)

// WorkerGone says what a session does whose worker is not schedulable.
type WorkerGone string

const (
	WorkerGoneRebind WorkerGone = "rebind" // take another worker
	WorkerGoneFail   WorkerGone = "fail"   // 503
	WorkerGoneWait   WorkerGone = "wait"   // up to WaitFor, then 503
)

// Workers says who is there.
type Workers struct {
	Static  []WorkerSpec
	File    string // a YAML list like Static, watched; "": none
	Health  Health
	Metrics Metrics
	Grace   time.Duration // how long a vanished worker is remembered
}

// Health is how workers are probed. An empty Path means: not at all.
type Health struct {
	Path           string
	Interval       time.Duration
	Timeout        time.Duration
	UnhealthyAfter int // failed probes in a row
	HealthyAfter   int // passed probes in a row
}

// Metrics is how load figures are read from workers. An empty Path means: not
// at all.
type Metrics struct {
	Path     string
	Interval time.Duration
}

// Replication is the mesh between replicas.
type Replication struct {
	Listen         string   // "tcp://host:port"; "": no mesh
	Peers          []string // "tcp://host:port" each
	Publish        []Topic
	KeyFile        string // shared secret; "": messages are not signed
	WriterID       uint64 // 0: the replica id
	SyncTimeout    time.Duration
	DigestInterval time.Duration
	MaxClockSkew   time.Duration
}

// Topic is a version of the binding topic that is published.
type Topic string

const (
	TopicV2 Topic = "v2"
	TopicV1 Topic = "v1" // for the one release in which old and new replicas mix
)

// KVState is what is kept about the KV caches of workers.
type KVState struct {
	RecordsDir  string  // watched directory of discovery records; "": none
	BlockSize   int     // tokens; 0: learnt from the first event
	MaxBlocks   int     // per partition
	HoledWeight float64 // 0 to 1: what the overlap of an owner with missing events counts
}

// Routing holds the weights of the choice of a worker, by the names that
// Dynamo's router gave them.
type Routing struct {
	Tokenizer                 Tokenizer
	OverlapScoreCredit        float64 // 0 to 1: what a block in device memory saves
	OverlapScoreCreditDecay   float64 // how fast that credit fades on workers busier than the idlest
	PrefillLoadScale          float64 // what a prompt block costs
	HostCacheHitWeight        float64 // 0 to 1: what a block in host memory saves
	DiskCacheHitWeight        float64 // 0 to 1: what a block on disk saves
	SharedCacheMultiplier     float64 // 0 to 1: what a block in a shared cache saves
	DecodeActiveRequestWeight float64 // what a running request costs, in blocks
	Temperature               float64 // 0: the cheapest worker; above: cheap ones more often than dear ones
	Limits                    Limits
}

// Limits keep workers that are too busy out of a choice; where all are, the answer
// is 429. 0 means no limit.
type Limits struct {
	ActiveRequests  int     // that run or wait on a worker's rank
	WaitingRequests int     // that wait there, as the worker's metrics say
	KVUse           float64 // 0 to 1: share of the KV blocks in use, as the worker's metrics say
}

// TokenizerOff as the tokenizer's URL means: no tokenizer is called.
const TokenizerOff = "off"

// Tokenizer is who turns a prompt into tokens.
type Tokenizer struct {
	URL      string // "": /tokenize of a live worker of the partition; TokenizerOff: nobody
	Deadline time.Duration
}

// Envoy is what the generated Envoy configuration says.
type Envoy struct {
	Listener          string // "host:port" of Envoy's own listener
	Admin             string // "host:port" of Envoy's admin API; "": it has none
	Attachment        Attachment
	BodyMode          BodyMode
	DestinationHeader bool   // the destination also as a request header
	EndpointsFile     string // where Mooring keeps Envoy's list of endpoints (EDS)
}

// Attachment is how Envoy is told the destination.
type Attachment string

const (
	AttachOverrideHost Attachment = "override_host"
	AttachOriginalDst  Attachment = "original_dst"
)

// BodyMode is how Envoy hands request bodies to the filter.
type BodyMode string

const (
	BodyFullDuplex BodyMode = "full_duplex"
	BodyNone       BodyMode = "none" // pulled only when needed
	BodyBuffered   BodyMode = "buffered"
)

// Shutdown says how Mooring stops.
type Shutdown struct {
	Drain time.Duration // how long streams may go on after the signal to stop
}

// Telemetry is what traces and metrics say of their origin; where they go is
// said by the standard OTEL_* environment variables.
type Telemetry struct {
	ServiceName string
}

// Size is a number of bytes.
type Size int64

// Units of Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// String returns the size in the largest unit that divides it, as the file
// spells it: "16MiB".
func (s Size) String() string {
	for _, u := range []struct {
		unit Size
		name string
	}{{GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if s != 0 && s%u.unit == 0 {
			return strconv.FormatInt(int64(s/u.unit), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
