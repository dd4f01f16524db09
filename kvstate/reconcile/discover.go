package reconcile

import (
	"time"

	"mooring/kvstate"
)

// update takes what a discovery source says. A watch that is lost touches every
// owner it named; its records stay, but what follows from them is uncertain.
func (c *core) update(u update) {
	w := c.watches[u.watch]
	if w == nil {
		w = &watchState{records: make(map[recordName]kvstate.CacheOwnerID)}
		c.watches[u.watch] = w
	}
	w.lost = u.lost
	if known := u.lost == nil; known != w.known {
		w.known = known
		for _, id := range w.records {
			c.touch(c.owner(id))
		}
	}
	if u.whole {
		c.withdrawOthers(w, u)
	}
	for _, ch := range u.changes {
		name, key := recordName{ch.topic, ch.id}, recordKey{u.watch, ch.id}
		switch r := ch.record.(type) {
		case kvstate.SourceAdvertisement:
			c.enter(w, name, key, r.CacheOwnerID)
			c.putSource(key, r)
		case kvstate.AttachmentAdvertisement:
			c.enter(w, name, key, r.CacheOwnerID)
			c.putAttachment(key, r)
		default:
			c.withdraw(w, name, key)
		}
	}
}

// withdrawOthers withdraws the records of a watch that u does not have.
func (c *core) withdrawOthers(w *watchState, u update) {
	has := make(map[recordName]bool, len(u.changes))
	for _, ch := range u.changes {
		has[recordName{ch.topic, ch.id}] = true
	}
	for name := range w.records {
		if !has[name] {
			c.withdraw(w, name, recordKey{u.watch, name.id})
		}
	}
}

// enter notes whose record has that name. It was another owner's if the record was
// withdrawn and written anew while the watch was lost.
func (c *core) enter(w *watchState, name recordName, key recordKey, id kvstate.CacheOwnerID) {
	if old, ok := w.records[name]; ok && old != id {
		c.withdraw(w, name, key)
	}
	w.records[name] = id
}

func (c *core) putSource(key recordKey, s kvstate.SourceAdvertisement) {
	o := c.owner(s.CacheOwnerID)
	if old, ok := o.sources[key]; ok && old == s {
		return
	}
	o.sources[key] = s
	c.news(o)
}

func (c *core) putAttachment(key recordKey, a kvstate.AttachmentAdvertisement) {
	o := c.owner(a.CacheOwnerID)
	if old, ok := o.attachments[key]; ok {
		if old == a {
			return
		}
		c.name(o, old.Worker, -1)
	}
	o.attachments[key] = a
	c.name(o, a.Worker, +1)
	c.news(o)
}

func (c *core) withdraw(w *watchState, name recordName, key recordKey) {
	id, ok := w.records[name]
	if !ok {
		return
	}
	delete(w.records, name)
	o := c.owner(id)
	if name.topic == kvstate.SourceTopic {
		delete(o.sources, key)
	} else {
		c.name(o, o.attachments[key].Worker, -1)
		delete(o.attachments, key)
	}
	c.news(o)
}

// news has an owner looked at, and its agent asked without waiting for the end of
// a pause: what failed before may go well now.
func (c *core) news(o *owner) {
	o.talk.trouble, o.talk.statusPause = pause{}, pause{}
	o.talk.statusAt = time.Time{}
	c.touch(o)
}
