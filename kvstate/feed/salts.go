package feed

// maxSalted bounds the salted blocks that are remembered, about 24 bytes each.
const maxSalted = 1 << 18

// A salting says under which salt a block was stored.
type salting struct {
	add       uint64 // what the salt adds to the seed; 0: no salt
	ambiguous bool   // the block was seen under two
}

// salts remembers the salt of blocks by their external hash, so that children
// can inherit it. Blocks without a salt take no room. When half of the bound is
// full, what was neither stored nor asked for since the half before is
// forgotten. The zero value is empty.
type salts struct {
	young, old map[uint64]salting
}

// of returns how a block was salted; unknown blocks are not.
func (s *salts) of(block uint64) salting {
	if v, ok := s.young[block]; ok {
		return v
	}
	v, ok := s.old[block]
	if ok {
		s.keep(block, v)
	}
	return v
}

// put notes the salt of a stored block.
func (s *salts) put(block, add uint64) {
	if add == 0 && len(s.young) == 0 && len(s.old) == 0 {
		return
	}
	v := s.of(block)
	switch {
	case v.ambiguous || (v.add != 0 && v.add != add):
		v = salting{ambiguous: true}
	case add == 0:
		return
	default:
		v.add = add
	}
	s.keep(block, v)
}

func (s *salts) keep(block uint64, v salting) {
	if len(s.young) >= maxSalted/2 {
		s.old, s.young = s.young, nil
	}
	if s.young == nil {
		s.young = make(map[uint64]salting)
	}
	s.young[block] = v
}
