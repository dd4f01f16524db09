package kvstate

import "fmt"

func (r *msgReader) readOwner(id *CacheOwnerID) {
	r.object([]string{"pool", "slot"}, 2, func(name string) {
		if name == "slot" {
			r.readDigest(&id.Slot.Digest, &id.Slot.Source)
			return
		}
		r.object([]string{"indexer_domain", "dc_id"}, 2, func(name string) {
			if name == "dc_id" {
				id.Pool.DC = DCID(r.uint())
				return
			}
			r.readDomain(&id.Pool.IndexerDomain)
		})
	})
}

func (r *msgReader) readDomain(id *IndexerDomainID) {
	r.object([]string{"cache_semantics", "routing_scope"}, 2, func(name string) {
		if name == "cache_semantics" {
			r.readDigest(&id.CacheSemantics.Digest, &id.CacheSemantics.Source)
			return
		}
		r.readDigest(&id.RoutingScope.Digest, &id.RoutingScope.Source)
	})
}

func (r *msgReader) readDigest(digest *Digest, source *IdentitySource) {
	r.object([]string{"digest", "source"}, 2, func(name string) {
		if name == "source" {
			readMsgEnum(r, identitySources, source)
			return
		}
		if n := r.arrayLen(); n != len(digest) && r.err == nil {
			r.fail(fmt.Errorf("%d numbers, want %d", n, len(digest)))
		}
		for i := range digest {
			v := r.uint()
			if v > 255 {
				r.fail(fmt.Errorf("%d is no byte", v))
			}
			digest[i] = byte(v)
		}
	})
}
