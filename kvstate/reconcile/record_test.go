package reconcile

import (
	"encoding/json"
	"testing"

	"mooring/kvstate"
)

func FuzzRecord(f *testing.F) {
	source, _ := json.Marshal(sourceRecord(7))
	attachment, _ := json.Marshal(attachmentRecord(7, 1))
	f.Add(uint64(7), source)
	f.Add(kvstate.AttachmentRecordID(7, 1), attachment)
	f.Add(uint64(0), []byte("{"))
	f.Fuzz(func(t *testing.T, id uint64, data []byte) {
		if !whole(data) && json.Valid(data) {
			t.Error("valid JSON is taken for half a file")
		}
		if v, err := decodeSource(id, data); err == nil {
			if s := v.(kvstate.SourceAdvertisement); s.PublisherID != id || s.IndexerDomainID != s.CacheOwnerID.Pool.IndexerDomain {
				t.Errorf("taken: %+v", s)
			}
		}
		if v, err := decodeAttachment(id, data); err == nil {
			if a := v.(kvstate.AttachmentAdvertisement); kvstate.AttachmentRecordID(a.PublisherID, a.AttachmentGeneration) != id {
				t.Errorf("taken: %+v", a)
			}
		}
	})
}
