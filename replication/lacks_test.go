package replication_test

import (
	"fmt"
	"maps"
	"strings"

	"mooring/affinity"
)

// records returns all that a replica holds, by sum.
func (r *replica) records() map[uint64]affinity.Record {
	recs := make(map[uint64]affinity.Record)
	for _, table := range r.sessions.Tables() {
		var refs []affinity.Ref
		for b := range affinity.Buckets {
			refs = table.Refs(refs, uint8(b))
		}
		for _, ref := range refs {
			if rec, ok := table.Record(ref); ok {
				recs[rec.Sum] = rec
			}
		}
	}
	return recs
}

// lack is a record that a replica does not hold while another does.
type lack struct {
	sum     uint64
	replica int
}

// differing returns the records that only some of the replicas hold, by who
// lacks them.
func (c *cluster) differing() map[lack]affinity.Record {
	all, held := make(map[uint64]affinity.Record), make([]map[uint64]affinity.Record, len(c.replicas))
	for i, r := range c.replicas {
		if !r.down {
			held[i] = r.records()
			maps.Copy(all, held[i])
		}
	}
	lacks := make(map[lack]affinity.Record)
	for i, r := range c.replicas {
		for sum, rec := range all {
			if _, ok := held[i][sum]; !ok && !r.down {
				lacks[lack{sum, i}] = rec
			}
		}
	}
	return lacks
}

func (l lack) describe(rec affinity.Record) string {
	return fmt.Sprintf("\n  replica %d lacks %v %q %v %d/%d life %v", l.replica, rec.Kind, rec.Session, rec.Target, rec.Sequence, rec.WriterID, rec.Life)
}

func describe(lacks map[lack]affinity.Record) string {
	var b strings.Builder
	for l, rec := range lacks {
		b.WriteString(l.describe(rec))
	}
	return b.String()
}
