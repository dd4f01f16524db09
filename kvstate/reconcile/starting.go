package reconcile

import "mooring/kvstate"

// starting tells when the start is over: every source has said what it knows, and
// every owner that was known then was judged. Owned by the reconciler's loop.
type starting struct {
	wants  []watch // sources that must have spoken
	listed bool    // left is set
	left   []*owner
}

// over reports whether the start is over. Over all calls together it looks at each
// owner about once.
func (s *starting) over(c *core) bool {
	if !s.listed {
		for _, name := range s.wants {
			if c.watches[name] == nil {
				return false
			}
		}
		for _, o := range c.owners {
			s.left = append(s.left, o)
		}
		s.listed = true
	}
	for len(s.left) > 0 {
		last := len(s.left) - 1
		if s.left[last].undecided() {
			return false
		}
		s.left = s.left[:last]
	}
	return true
}

// undecided reports whether o may well be ready in a moment, with all that its
// engine holds.
func (o *owner) undecided() bool {
	switch t := &o.talk; {
	case o.fed:
		return o.opening
	case o.resolution.State == kvstate.Ready, o.why() != nil:
		return false
	default:
		return t.status != 0 || t.recovery != 0 || t.restoring != 0 || t.confirm != nil
	}
}

// Settled is closed when the reconciler has judged every owner that its sources
// named at the start, engines of configured workers included, or Run is 5 s old.
func (r *Reconciler) Settled() <-chan struct{} { return r.settled }

func (r *Reconciler) endStart() {
	if r.starting != nil {
		r.starting = nil
		close(r.settled)
	}
}
