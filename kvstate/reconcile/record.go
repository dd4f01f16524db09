package reconcile

import (
	"encoding/json"
	"fmt"

	"mooring/kvstate"
)

// update is what a discovery source says at one moment; all of it happens at once.
type update struct {
	watch   watch
	lost    error // what the watch knows is uncertain from now on; nothing else is said
	whole   bool  // changes are all the records there are
	changes []change
}

func (u *update) empty() bool { return u.lost == nil && !u.whole && len(u.changes) == 0 }

// change is a new record, or the withdrawal of one.
type change struct {
	topic  string // kvstate.SourceTopic or kvstate.AttachmentTopic
	id     uint64
	record any // kvstate.SourceAdvertisement, kvstate.AttachmentAdvertisement; nil: withdrawn
}

// watch names a discovery source.
type watch string

const (
	configuration  watch = "config"
	directoryWatch watch = "directory"
)

// refusal is an input that is not taken, and why. It is a label of a metric.
type refusal struct {
	reason reason
	topic  string // of a record
	where  string // its file, or the topic's directory
	err    error
}

func (r refusal) Error() string { return fmt.Sprintf("%s: %s: %v", r.where, r.reason, r.err) }

// reason is a closed list.
type reason string

const (
	unreadable    reason = "unreadable"     // the file cannot be read
	notAFile      reason = "not_a_file"     // it is no regular file
	tooLarge      reason = "too_large"      // over maxRecordBytes
	tooMany       reason = "too_many"       // there is no room for a topic's further files; once, when that begins
	malformed     reason = "malformed"      // not JSON, or not what the topic holds
	changed       reason = "changed"        // another payload under a known id
	wrongID       reason = "wrong_id"       // the file's name is not the record's id
	wrongProtocol reason = "wrong_protocol" // not v2 with vllm_residency_v1
	wrongDomain   reason = "wrong_domain"   // the indexer domain is not the owner's
	noBlockSize   reason = "no_block_size"  // a source whose blocks have no tokens
)

// recordRefusals lists the reasons for records, for metrics that show zeros.
var recordRefusals = []reason{
	unreadable, notAFile, tooLarge, tooMany, malformed, changed, wrongID, wrongProtocol, wrongDomain, noBlockSize,
}

// decodeSource reads a record of the source topic. An error that is no refusal
// says that the JSON is malformed.
func decodeSource(id uint64, data []byte) (any, error) {
	var s kvstate.SourceAdvertisement
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	switch {
	case s.PublisherID != id:
		return nil, refusal{reason: wrongID, err: fmt.Errorf("the file's name says %d, publisher_id %d", id, s.PublisherID)}
	case s.ProtocolVersion != kvstate.V2 || s.IngressProtocol != kvstate.VLLMResidencyV1:
		return nil, refusal{reason: wrongProtocol, err: fmt.Errorf("protocol %s, ingress %s", s.ProtocolVersion, s.IngressProtocol)}
	case s.IndexerDomainID != s.CacheOwnerID.Pool.IndexerDomain:
		return nil, refusal{reason: wrongDomain, err: fmt.Errorf("indexer domain %s, but the owner is %s", s.IndexerDomainID, s.CacheOwnerID)}
	case s.KVBlockSize == 0:
		return nil, refusal{reason: noBlockSize, err: fmt.Errorf("kv_block_size is 0")}
	}
	return s, nil
}

// decodeAttachment reads a record of the attachment topic.
func decodeAttachment(id uint64, data []byte) (any, error) {
	var a kvstate.AttachmentAdvertisement
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, err
	}
	if want := kvstate.AttachmentRecordID(a.PublisherID, a.AttachmentGeneration); want != id {
		return nil, refusal{reason: wrongID, err: fmt.Errorf("the file's name says %d, publisher and generation make it %d", id, want)}
	}
	if a.ProtocolVersion != kvstate.V2 {
		return nil, refusal{reason: wrongProtocol, err: fmt.Errorf("protocol %s", a.ProtocolVersion)}
	}
	return a, nil
}

// Reasons for what agents say.
const (
	wrongOwner   reason = "wrong_owner"   // an event of another owner or worker, or of no known domain
	wrongReceipt reason = "wrong_receipt" // a recovery of another agent or attachment, or of more or less than there is
	tailFull     reason = "tail_full"     // a live event that had to wait and found no room
	undecodable  reason = "undecodable"   // a batch of live events that cannot be read
)

// agentRefusals lists them, for metrics that show zeros.
var agentRefusals = []reason{wrongOwner, wrongReceipt, tailFull, undecodable}
