package kvstate

import (
	"encoding/binary"

	"github.com/zeebo/blake3"
)

// recordIDMask keeps record ids exact in JSON readers that use float64.
const recordIDMask = 1<<53 - 1

// AttachmentRecordID returns the discovery record id of one attachment: another
// one for each generation, so that a late removal of generation N's record cannot
// delete that of N+1. It is between 1 and 2^53-1.
func AttachmentRecordID(publisher, generation uint64) uint64 {
	b := binary.BigEndian.AppendUint64([]byte("dynamo/kv-state-attachment-record/v2"), publisher)
	return recordID(binary.BigEndian.AppendUint64(b, generation))
}

// HostRecordID returns the discovery record id of the host behind a connection.
// It is between 1 and 2^53-1.
func HostRecordID(connection uint64) uint64 {
	return recordID(binary.BigEndian.AppendUint64([]byte("dynamo/kv-state-host/v2"), connection))
}

func recordID(material []byte) uint64 {
	sum := blake3.Sum256(material)
	return max(binary.BigEndian.Uint64(sum[:8])&recordIDMask, 1)
}
