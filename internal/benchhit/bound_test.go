package benchhit

import "math"

// bound is what no router can pass: every block that was ever computed is in the
// cache of a worker that has nothing else to do. The order in which conversations
// come does not change the shares.
func bound(trace []*conversation) *result {
	var res result
	everything := newPrefixCache(math.MaxInt, nil)
	for _, c := range trace {
		for turn, t := range c.turns {
			r := newRequest(c, turn)
			cached := everything.matched(usable(r))
			res.add(r, cached, prefill(r, cached))
			r.extend(t.reply)
			everything.use(r.chain)
		}
	}
	return &res
}
