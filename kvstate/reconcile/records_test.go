package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
)

// Ten thousand records on disk reach the core, and of those that change only what
// changed is said.
func TestTenThousandRecords(t *testing.T) {
	const n = 10_000
	w := newLookedAt(t)
	w.manyRecords(n)
	template, text := sourceRecord(1), encoded(t, sourceRecord(1))
	w.dir.topics[0].decode = func(id uint64, data []byte) (any, error) { // all but a few by comparison: it takes seconds otherwise
		if string(data) != strings.Replace(text, `"publisher_id":1`, fmt.Sprintf(`"publisher_id":%d`, id), 1) {
			return decodeSource(id, data)
		}
		s := template
		s.PublisherID = id
		return s, nil
	}
	c := newCore(fleet.NewView(nil), time.Hour, time.Minute)
	said := 0
	look := func() {
		w.dir.look(hearsay{all: true}, func(u update) {
			said = len(u.changes)
			c.update(u)
		})
	}
	look()
	known := c.watches[directoryWatch].records
	if said != n || len(known) != n {
		t.Fatalf("%d changes are said and %d records known, want %d", said, len(known), n)
	}
	o := c.owners[testOwner(1)]
	if len(o.sources) != n {
		t.Fatalf("the owner has %d sources, want %d", len(o.sources), n)
	}

	changed := sourceRecord(1)
	changed.PublisherID, changed.GlobalDPRank = 2, 3
	w.write(kvstate.SourceTopic, "2.json", encoded(t, changed))
	w.remove(kvstate.SourceTopic, "3.json")
	added := sourceRecord(1)
	added.PublisherID = n + 1
	w.write(kvstate.SourceTopic, fmt.Sprintf("%d.json", n+1), encoded(t, added))
	look()
	if said != 2 { // what changed is no record
		t.Errorf("%d changes are said, want 2", said)
	}
	if got := strings.Join(w.told, "; "); got != "refused changed" {
		t.Errorf("told %q", got)
	}
	want := make(map[recordName]kvstate.CacheOwnerID)
	for id := range uint64(n + 1) {
		want[recordName{kvstate.SourceTopic, id + 1}] = testOwner(1)
	}
	delete(want, recordName{kvstate.SourceTopic, 3})
	if !maps.Equal(known, want) {
		t.Errorf("%d records are known, want %d", len(known), len(want))
	}
	ids := slices.Collect(maps.Keys(o.sources))
	if len(ids) != n || slices.ContainsFunc(ids, func(k recordKey) bool { return k.id == 3 }) {
		t.Errorf("the owner has %d sources, want all %d but 3", len(ids), n)
	}
	if s := o.sources[recordKey{directoryWatch, 2}]; s.GlobalDPRank != 0 {
		t.Errorf("source 2 has rank %d, want that of the first payload", s.GlobalDPRank)
	}
}
