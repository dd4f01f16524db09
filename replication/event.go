package replication

import (
	"errors"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// Topics of the mesh. A topic is matched exactly.
const (
	TopicV2   = "dynamo.session-affinity.v2"
	TopicV1   = "dynamo.session-affinity.v1"
	TopicSync = "mooring.affinity-sync.v1"
)

// BindingEvent is one binding on the wire: a MessagePack map, or JSON for tools,
// with the keys in this order.
type BindingEvent struct {
	ModelName    string  `json:"model_name"`
	RoutingGroup string  `json:"routing_group"`
	SessionID    string  `json:"session_id"`
	WorkerID     uint64  `json:"worker_id"`
	DPRank       *uint32 `json:"dp_rank"` // nil: the worker leaves the rank open
	Sequence     uint64  `json:"sequence"`
	WriterID     uint64  `json:"writer_id"`

	// Keys that only Mooring sends, and others ignore.

	// SenderID names the process that sent this message; 0: a plain peer.
	SenderID uint64 `json:"sender_id,omitempty"`
	// SenderSeq counts all messages of the sender, without gaps, from 1.
	SenderSeq uint64 `json:"sender_seq,omitempty"`
	// TTLMillis is the life left at the sender, rounded up; nil: the receiver's TTL.
	TTLMillis *uint64 `json:"ttl_ms,omitempty"`
}

// SyncType says what a SyncMessage is.
type SyncType string

// The messages that replicas send one another about their state.
const (
	Hello     SyncType = "hello"  // somebody joined and asks for digests, or asks one peer for sub-buckets
	DigestOf  SyncType = "digest" // the sums of one partition, or of some of its buckets for one peer
	Want      SyncType = "want"   // asks one peer for buckets of one partition
	Floor     SyncType = "floor"  // an unpin
	StreamEnd SyncType = "end"    // the end of a request that another replica picked
	Alive     SyncType = "alive"  // says that the sender is there; each second
)

// SyncMessage is a message on TopicSync. Which fields are set depends on Type.
type SyncMessage struct {
	Type      SyncType
	SenderID  uint64
	SenderSeq uint64

	Partition fleet.Partition // digest, want and floor; hello with buckets
	Sums      []byte          // digest: 256 sums, big-endian; of some buckets: 256 each
	To        uint64          // want, hello with buckets: the sender id that is asked; digest of buckets: who asked; end: the replica that picked
	Buckets   []byte          // want, hello, digest of buckets: one byte per bucket
	Subs      []byte          // want: two bytes per sub-bucket: its bucket and it
	Have      []byte          // want: sums of records not to be sent, big-endian
	SessionID string          // floor
	Sequence  uint64          // floor
	WriterID  uint64          // floor; alive: whose versions the sender makes
	TTLMillis uint64          // floor
	End       End             // end: its Replica is To
	Digested  bool            // alive: digests of all the sender's partitions went before
}

// End is the end of a request that another replica picked, as a gateway's access
// log told it here.
type End struct {
	Replica       uint64 // who picked
	Lease         uint64 // the number of its pick
	Outcome       affinity.Outcome
	Served        string // the address that served it; "" if not known
	ConnectFailed bool   // the worker could not be connected to
}

// maxServed bounds End.Served in bytes: an address with a port.
const maxServed = 64

// Errors of decoding.
var (
	// ErrMalformed: not the MessagePack that it should be, or too large.
	ErrMalformed = errors.New("malformed message")
	// ErrMissingKey: a key that must be there is not.
	ErrMissingKey = errors.New("a required key is missing")
)

// MaxPayload bounds a payload in bytes.
const MaxPayload = 1 << 20
