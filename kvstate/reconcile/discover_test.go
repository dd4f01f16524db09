package reconcile

import (
	"testing"
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
)

// A record that is another owner's when the watch is known again is no longer the
// first one's: it must not stay its source or attachment.
func TestRecordThatReturnsAsAnotherOwners(t *testing.T) {
	c := newCore(fleet.NewView([]fleet.Worker{testWorker(1)}), time.Hour, time.Minute)
	record := kvstate.AttachmentRecordID(1, 1)
	say := func(owner byte) {
		s, a := sourceRecord(1), attachmentRecord(1, 1)
		s.CacheOwnerID, a.CacheOwnerID = testOwner(owner), testOwner(owner)
		c.update(update{watch: directoryWatch, whole: true, changes: []change{
			{kvstate.SourceTopic, 1, s}, {kvstate.AttachmentTopic, record, a},
		}})
		c.settle(time.Unix(1000, 0))
	}
	say('A')
	c.update(update{watch: directoryWatch, lost: errRepeated})
	say('B')
	a, b := c.owners[testOwner('A')], c.owners[testOwner('B')]
	if a != nil && (len(a.sources) > 0 || len(a.attachments) > 0) {
		t.Errorf("the first owner still has %d sources and %d attachments", len(a.sources), len(a.attachments))
	}
	if b == nil || len(b.sources) != 1 || len(b.attachments) != 1 {
		t.Fatalf("the second owner is %+v, want one source and one attachment", b)
	}
	if naming := c.on[1]; len(naming) != 1 || naming[b] != 1 {
		t.Errorf("named by %d owners, want the second alone", len(naming))
	}
}
