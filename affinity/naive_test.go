package affinity

import (
	"fmt"
	"slices"
	"time"

	"mooring/internal/fleet"
)

// naive is a second implementation of a table, written to be obviously right and
// not to be fast: it keeps every request that ever came and derives the lease
// counts from them, and forgets what has ended whenever the clock moves.
type naive struct {
	cfg      Config
	now      time.Duration
	active   map[fleet.WorkerID]bool
	sessions map[string]*naiveSession
	requests []*naiveRequest
	sequence uint64
	bindings int // made so far; names them
}

type naiveSession struct {
	chooser     *naiveRequest // nil: nobody
	choosesTill time.Duration
	binding     *naiveBinding // nil: none
}

type naiveBinding struct {
	number   int
	target   fleet.Target
	sequence uint64
	ends     time.Duration
	users    int // requests that were ever given it, the binder included; an operator counts as many
}

type naiveRequest struct {
	session  string
	wants    fleet.Target
	chose    bool // it was given the turn and has neither bound nor given up; it may have lost it
	chooses  bool // it has the turn
	kept     int  // number of the binding that a joiner made for this chooser; 0: none
	uses     int  // number of the binding it has a lease on; 0: none
	got      fleet.Target
	sequence uint64
}

func (n *naive) alive(t fleet.Target) bool { return n.active[t.Worker] && t.Rank < 2 }

func (n *naive) session(name string) *naiveSession {
	if n.sessions[name] == nil {
		n.sessions[name] = &naiveSession{}
	}
	return n.sessions[name]
}

func (n *naive) leases(b *naiveBinding) (count int) {
	for _, r := range n.requests {
		if b != nil && (r.uses == b.number || r.kept == b.number) {
			count++
		}
	}
	return count
}

// tidy forgets what has ended.
func (n *naive) tidy() {
	for name, s := range n.sessions {
		if s.chooser != nil && n.now >= s.choosesTill {
			s.chooser.chooses, s.chooser = false, nil
		}
		if s.binding != nil && n.leases(s.binding) == 0 && n.now >= s.binding.ends {
			s.binding = nil
		}
		if s.chooser == nil && s.binding == nil {
			delete(n.sessions, name)
		}
	}
}

func (n *naive) newBinding(t fleet.Target, users int) *naiveBinding {
	n.bindings++
	n.sequence++
	return &naiveBinding{number: n.bindings, target: t, sequence: n.sequence, ends: n.now + n.cfg.TTL, users: users}
}

// acquire returns a word for what happened; the request is new.
func (n *naive) acquire(r *naiveRequest) string {
	n.requests = append(n.requests, r)
	s, known := n.sessions[r.session]
	if !known && len(n.sessions) >= n.cfg.MaxSessions {
		return "full"
	}
	if !known {
		s = &naiveSession{}
	}
	if s.chooser != nil {
		return "wait"
	}
	if b := s.binding; b != nil && n.alive(b.target) {
		fits := r.wants.Worker == 0 || r.wants == b.target || r.wants == fleet.WorkerOnly(b.target.Worker)
		if !fits {
			return "conflict"
		}
		b.users++
		r.uses, r.got, r.sequence = b.number, b.target, b.sequence
		return "bound"
	}
	named := n.alive(r.wants)
	if s.binding != nil && !named && n.cfg.WhenGone != Rebind {
		return "gone"
	}
	if r.wants.Worker != 0 && !named {
		return "gone"
	}
	s.chooser, s.choosesTill, r.chose, r.chooses = r, n.now+n.cfg.InitTimeout, true, true
	n.sessions[r.session] = s
	if s.binding != nil {
		return "choose moved"
	}
	return "choose"
}

func (n *naive) giveUp(r *naiveRequest) {
	if s := n.sessions[r.session]; s != nil && s.chooser == r {
		s.chooser = nil
	}
	r.chose, r.chooses, r.kept, r.uses = false, false, 0, 0
	n.tidy()
}

func (n *naive) bind(r *naiveRequest, to fleet.Target) string {
	s := n.sessions[r.session]
	switch {
	case r.chose:
		if r.wants.Worker != 0 && r.wants != to && r.wants != fleet.WorkerOnly(to.Worker) {
			n.giveUp(r)
			return "conflict"
		}
		if r.chooses {
			s.binding, s.chooser = n.newBinding(to, 1), nil
			r.chose, r.chooses = false, false
			r.uses, r.got, r.sequence = s.binding.number, to, s.binding.sequence
			return "ok"
		}
		if r.kept == 0 || s == nil || s.binding == nil || s.binding.number != r.kept {
			n.giveUp(r)
			return "lost"
		}
		r.chose = false
		r.uses, r.kept, r.got, r.sequence = r.kept, 0, s.binding.target, s.binding.sequence
		if answer := n.dispatch(r, s, to); answer != "conflict" {
			return answer
		}
		return "lost"
	case r.uses == 0:
		return "lost"
	default:
		return n.dispatch(r, s, to)
	}
}

func (n *naive) dispatch(r *naiveRequest, s *naiveSession, to fleet.Target) string {
	same := r.got == to || !r.got.Ranked && r.got.Worker == to.Worker
	if n.cfg.Mode == Soft {
		n.follow(r, s, to)
		return "ok"
	}
	if same {
		return "ok"
	}
	if n.alive(r.got) {
		n.giveUp(r)
		return "conflict"
	}
	n.giveUp(r)
	if n.cfg.WhenGone != Rebind {
		return "gone"
	}
	s = n.sessions[r.session]
	if s == nil {
		if len(n.sessions) >= n.cfg.MaxSessions {
			return "ok"
		}
		s = n.session(r.session)
	}
	switch b := s.binding; {
	case s.chooser != nil:
		s.binding = n.newBinding(to, 2)
		s.chooser.chooses, s.chooser.kept = false, s.binding.number
		s.chooser = nil
	case b != nil && n.alive(b.target):
		if b.target != to && (b.target.Ranked || b.target.Worker != to.Worker) {
			return "conflict"
		}
		b.users++
	default:
		s.binding = n.newBinding(to, 1)
	}
	r.uses, r.got, r.sequence = s.binding.number, s.binding.target, s.binding.sequence
	return "ok"
}

func (n *naive) follow(r *naiveRequest, s *naiveSession, to fleet.Target) {
	if r.got.Ranked && !to.Ranked {
		return
	}
	if !r.got.Ranked {
		to = fleet.WorkerOnly(to.Worker)
	}
	if to == r.got || s == nil || s.chooser != nil || s.binding == nil || s.binding.number != r.uses || s.binding.sequence != r.sequence {
		return
	}
	n.sequence++
	s.binding.target, s.binding.sequence = to, n.sequence
	r.got, r.sequence = to, n.sequence
}

func (n *naive) release(r *naiveRequest, o Outcome) {
	s := n.sessions[r.session]
	if r.uses != 0 && s != nil && s.binding != nil && s.binding.number == r.uses {
		switch {
		case o != NeverSent:
			s.binding.ends = max(s.binding.ends, n.now+n.cfg.TTL)
		case s.binding.users == 1:
			s.binding = nil
			n.sequence++
		}
	}
	n.giveUp(r)
}

func (n *naive) pin(name string, to fleet.Target) string {
	if n.sessions[name] == nil && len(n.sessions) >= n.cfg.MaxSessions {
		return "full"
	}
	s := n.session(name)
	if s.chooser != nil {
		s.chooser.chooses, s.chooser = false, nil
	}
	made := n.newBinding(to, 1000)
	if s.binding != nil {
		made.number = s.binding.number // the leases stay
	}
	s.binding = made
	return "ok"
}

func (n *naive) unpin(name string) string {
	n.sequence++
	s := n.sessions[name]
	if s == nil || s.binding == nil {
		return "absent"
	}
	s.binding = nil
	n.tidy()
	return "ok"
}

func (n *naive) dump() string {
	n.tidy()
	var lines []string
	for name, s := range n.sessions {
		line := name + ":"
		if b := s.binding; b != nil {
			line += fmt.Sprintf(" %v seq=%d leases=%d life=%v", b.target, b.sequence, n.leases(b), b.ends-n.now)
		}
		if s.chooser != nil {
			line += fmt.Sprintf(" turn=%v", s.choosesTill-n.now)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return fmt.Sprint(lines)
}
