package kvstate

import "fmt"

// ConflictError says that one cache owner resolved to two workers.
type ConflictError struct {
	Owner    CacheOwnerID
	Existing Worker // by the earlier resolution
	Proposed Worker // by the later one
}

// Error names the owner and both workers.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("cache owner %s is ready on worker %s and on worker %s", e.Owner, e.Existing, e.Proposed)
}

// Aggregate makes a projection of the Ready resolutions. The only error is a
// [*ConflictError]: one owner on two workers. An exact repeat is accepted, and so
// are two owners on one worker (see [Projection.SharedWorkers]).
func Aggregate(rs []Resolution) (*Projection, error) {
	settled, conflicts := settle(rs)
	if len(conflicts) > 0 {
		return nil, conflicts[0]
	}
	edit := (*Projection)(nil).edit()
	for i := range settled {
		edit.put(&settled[i])
	}
	return &edit.next, nil
}

// settle returns one resolution for each owner in rs, in order of first mention,
// and the first conflict of each owner that is Ready on two workers. A conflicting
// owner is settled as not Ready. Of a Ready and another resolution the Ready one
// counts; of two that are Ready on one worker, the first, holed if either is.
func settle(rs []Resolution) (settled []Resolution, conflicts []*ConflictError) {
	if len(rs) == 1 {
		return rs, nil
	}
	settled = make([]Resolution, 0, len(rs))
	at := make(map[CacheOwnerID]int, len(rs))
	conflicting := make(map[CacheOwnerID]bool)
	for _, r := range rs {
		i, seen := at[r.Owner]
		switch {
		case !seen:
			at[r.Owner] = len(settled)
			settled = append(settled, r)
		case conflicting[r.Owner] || r.State != Ready:
		case settled[i].State != Ready:
			settled[i] = r
		case settled[i].Worker != r.Worker:
			conflicts = append(conflicts, &ConflictError{r.Owner, settled[i].Worker, r.Worker})
			conflicting[r.Owner] = true
			settled[i] = Resolution{Owner: r.Owner}
		default:
			settled[i].Holed = settled[i].Holed || r.Holed
		}
	}
	return settled, conflicts
}
