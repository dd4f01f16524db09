package simworker

import (
	"errors"
	"fmt"
	"time"
)

// maxEventQueue bounds the configurable queues and buffers, in batches.
const maxEventQueue = 1 << 20

// KVEvents says whether and how a worker publishes the changes of its caches,
// as a vLLM server with --kv-events-config does. Rank i has its own sockets, at
// the ports of Endpoint and Replay plus i, and its own sequence numbers.
type KVEvents struct {
	// Endpoint is where a PUB socket is bound, "tcp://HOST:PORT". With port 0
	// consecutive free ports are taken. Empty: no events, and the rest has no
	// meaning.
	Endpoint string
	// Replay is where a ROUTER socket is bound that repeats what the buffer
	// holds. Empty: no replay.
	Replay string
	// Topic is the first frame of every message.
	Topic string
	// Format is the form of batches and events, Hashes that of block hashes,
	// Salt that of a request's cache_salt.
	Format EventFormat
	Hashes HashForm
	Salt   SaltForm
	// Buffer is how many batches of a rank can be replayed. Default 10000.
	Buffer int
	// Queue is how many batches of a rank may wait to be published; one more is
	// lost, with its number. Default 4096.
	Queue int
	// DropEvery withholds every so many-th batch from the subscribers, but not
	// from the replay: 3 withholds the batches 2, 5, 8. Default 0: none.
	DropEvery int
	// ReplayFrames is the shape of a replayed message: 3 is empty frame, sequence,
	// payload, 4 has the topic behind the empty frame. Default 3.
	ReplayFrames int
	// ReplayDelay is how long an answer to a replay request keeps waiting.
	ReplayDelay time.Duration
	// ReplayFault is what is wrong with the answers.
	ReplayFault ReplayFault
}

// journaled reports whether anybody wants to know of changes.
func (k KVEvents) journaled() bool { return k.Endpoint != "" }

func (k KVEvents) withDefaults() (KVEvents, error) {
	setDefault(&k.Buffer, 10000)
	setDefault(&k.Queue, 4096)
	setDefault(&k.ReplayFrames, 3)
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, endpoint := range []string{k.Endpoint, k.Replay} {
		if endpoint != "" {
			_, _, err := splitEndpoint(endpoint)
			errs = append(errs, err)
		}
	}
	check(k.Replay == "" || k.Endpoint != "", "kv replay %q: there is nothing to replay without kv events", k.Replay)
	check(k.Buffer >= 1 && k.Buffer <= maxEventQueue, "kv buffer %d: must be 1 to %d", k.Buffer, maxEventQueue)
	check(k.Queue >= 1 && k.Queue <= maxEventQueue, "kv queue %d: must be 1 to %d", k.Queue, maxEventQueue)
	check(k.DropEvery >= 0, "kv drop %d: must not be negative", k.DropEvery)
	check(k.ReplayFrames == 3 || k.ReplayFrames == 4, "kv replay frames %d: must be 3 or 4", k.ReplayFrames)
	check(k.ReplayDelay >= 0, "kv replay delay %v: must not be negative", k.ReplayDelay)
	check(len(k.Topic) <= 256, "kv topic: must be at most 256 bytes")
	return k, errors.Join(errs...)
}

// EventFormat is the form of batches and events.
type EventFormat uint8

const (
	// EventMaps is vLLM's present form: batches and events are maps.
	EventMaps EventFormat = iota
	// EventArrays is vLLM's form up to the middle of 2026: arrays with every
	// field that was known then.
	EventArrays
	// EventShortArrays is the oldest form: no rank, medium, adapter name or
	// extra keys. Blocks of the host pool cannot be expressed and are left out.
	EventShortArrays
)

// eventFormats are the names of the formats.
func eventFormats() []string { return []string{"map", "array", "array-short"} }

// String returns the name of the format.
func (f EventFormat) String() string { return nameOf(f, eventFormats()) }

// MarshalText implements encoding.TextMarshaler.
func (f EventFormat) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *EventFormat) UnmarshalText(text []byte) error { return valueOf(f, eventFormats(), text) }

// HashForm is the form of block hashes in events.
type HashForm uint8

const (
	// HashUnsigned is vLLM's default: the last 8 bytes of the hash as an
	// unsigned number.
	HashUnsigned HashForm = iota
	// HashSigned is the same 64 bits as a signed number.
	HashSigned
	// HashBytes is all 32 bytes.
	HashBytes
)

// hashForms are the names of the forms.
func hashForms() []string { return []string{"int", "signed", "bytes"} }

// String returns the name of the form.
func (f HashForm) String() string { return nameOf(f, hashForms()) }

// MarshalText implements encoding.TextMarshaler.
func (f HashForm) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *HashForm) UnmarshalText(text []byte) error { return valueOf(f, hashForms(), text) }

// SaltForm is how a cache_salt stands in the extra keys of a first block.
type SaltForm uint8

const (
	// SaltTagged is the salt behind Dynamo's tag: "dynamo-cache-salt:tenant-a".
	SaltTagged SaltForm = iota
	// SaltBare is what a vLLM server makes of the same request: "tenant-a".
	SaltBare
)

// saltForms are the names of the forms.
func saltForms() []string { return []string{"tagged", "bare"} }

// String returns the name of the form.
func (f SaltForm) String() string { return nameOf(f, saltForms()) }

// MarshalText implements encoding.TextMarshaler.
func (f SaltForm) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *SaltForm) UnmarshalText(text []byte) error { return valueOf(f, saltForms(), text) }

// ReplayFault is what is wrong with the answers to replay requests.
type ReplayFault uint8

const (
	// ReplayFine is a replay as it should be.
	ReplayFine ReplayFault = iota
	// ReplaySilent never answers.
	ReplaySilent
	// ReplayNoEnd sends the batches, but not the end marker.
	ReplayNoEnd
	// ReplayEndless sends the batches over and over.
	ReplayEndless
)

// replayFaults are the names of the faults.
func replayFaults() []string { return []string{"none", "silent", "no-end", "endless"} }

// String returns the name of the fault.
func (f ReplayFault) String() string { return nameOf(f, replayFaults()) }

// MarshalText implements encoding.TextMarshaler.
func (f ReplayFault) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *ReplayFault) UnmarshalText(text []byte) error { return valueOf(f, replayFaults(), text) }
