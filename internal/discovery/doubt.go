package discovery

import (
	"time"

	"mooring/internal/fleet"
)

// source is what one source says, and what of it is believed. A source that
// suddenly lists nobody, or not even half of whom it listed, is more likely
// wrong than right: its missing workers stay for the grace, then it is believed.
// The doubt is about each missing worker by itself: whoever is listed again is
// out of it, the others wait for the time that their absence began with, however
// often the source repeats itself. A source that cannot answer is in no state to
// be believed: its doubts stand until it answers, and then last a whole grace
// again. It reads no clock.
type source struct {
	name    string
	listed  map[fleet.WorkerID]listing // its last answer
	doubted map[fleet.WorkerID]absence // missing in it and not believed to be gone; disjoint from listed
	settles time.Time                  // the earliest end in doubted; zero: none
	failing bool                       // it could not answer since
}

// absence is a worker that its source lists no more.
type absence struct {
	listing
	until time.Time // then it is believed
}

// opinion is what was made of one answer, for the log.
type opinion struct {
	began   bool // a doubt began with it
	ended   bool // a doubt ended with it: all who were missing are listed again or replaced
	missing int
	known   int // how many it had before, the doubted included
}

// fail says that the source could not answer.
func (s *source) fail() {
	s.failing = true
	s.settle()
}

// answer takes the source's whole answer, by id.
func (s *source) answer(now time.Time, grace time.Duration, listed map[fleet.WorkerID]listing) opinion {
	missing := s.missing(listed)
	o := opinion{missing: len(missing), known: len(s.listed) + len(s.doubted)}
	doubtful := grace > 0 && 2*len(missing) > o.known // so an empty answer is, unless there was nobody

	doubted := make(map[fleet.WorkerID]absence)
	for _, l := range missing {
		if old, already := s.doubted[l.ID]; already && !s.failing {
			doubted[l.ID] = old
		} else if already || doubtful {
			doubted[l.ID] = absence{l, now.Add(grace)}
		}
	}
	o.began = len(s.doubted) == 0 && len(doubted) > 0
	o.ended = len(s.doubted) > 0 && len(doubted) == 0
	s.listed, s.doubted, s.failing = listed, doubted, false
	s.settle()
	return o
}

// missing returns the workers that are not in an answer. One whose address the
// answer gives to another id is not missing: it was replaced, and that is no
// reason for doubt.
func (s *source) missing(listed map[fleet.WorkerID]listing) []listing {
	taken := make(map[place]bool, len(listed))
	for _, l := range listed {
		taken[l.place] = true
	}
	var missing []listing
	add := func(l listing) {
		if _, there := listed[l.ID]; !there && !taken[l.place] {
			missing = append(missing, l)
		}
	}
	for _, l := range s.listed {
		add(l)
	}
	for _, a := range s.doubted {
		add(a.listing)
	}
	return missing
}

// believe ends the doubts whose time has come and returns how many they were.
func (s *source) believe(now time.Time) int {
	if s.settles.IsZero() || now.Before(s.settles) {
		return 0
	}
	believed := 0
	for id, a := range s.doubted {
		if !now.Before(a.until) {
			delete(s.doubted, id)
			believed++
		}
	}
	s.settle()
	return believed
}

func (s *source) settle() {
	s.settles = time.Time{}
	if s.failing {
		return
	}
	for _, a := range s.doubted {
		if s.settles.IsZero() || a.until.Before(s.settles) {
			s.settles = a.until
		}
	}
}

// duplicate is a worker that a source lists though another one comes before it.
type duplicate struct {
	id             fleet.WorkerID
	source, winner string
}

// merge returns who is there by all sources, which must be ordered by name: of
// two that list one id the first counts, and one that lists it counts before
// one that is only doubted not to.
func merge(sources []*source) (map[fleet.WorkerID]listing, map[duplicate]bool) {
	all := make(map[fleet.WorkerID]listing)
	winners := make(map[fleet.WorkerID]string)
	duplicates := make(map[duplicate]bool)
	for _, s := range sources {
		for id, l := range s.listed {
			if winner, taken := winners[id]; taken {
				duplicates[duplicate{id, s.name, winner}] = true
				continue
			}
			all[id], winners[id] = l, s.name
		}
	}
	for _, s := range sources {
		for id, a := range s.doubted {
			if _, taken := all[id]; !taken {
				l := a.listing
				l.doubted = true
				all[id] = l
			}
		}
	}
	return all, duplicates
}
