package reconcile

import (
	"net/netip"
	"strings"

	"mooring/internal/fleet"
)

// addressOf returns where a worker is by now; the zero value if it is not known.
func addressOf(view *fleet.View, id fleet.WorkerID) netip.AddrPort {
	w, ok := view.Worker(id)
	if !ok {
		return netip.AddrPort{}
	}
	at, err := netip.ParseAddrPort(w.Address)
	if err != nil { // "": its name is not resolved yet
		return netip.AddrPort{}
	}
	return at
}

// neighbourOf reports whether another worker than id, which has not vanished, is at
// an address; with port 0, at any port of that host.
func neighbourOf(view *fleet.View, id fleet.WorkerID, at netip.AddrPort) bool {
	if at.Port() != 0 {
		w, ok := view.WorkerAt(at.String())
		return ok && isNeighbour(w, id)
	}
	host := strings.TrimSuffix(at.String(), "0") // with the colon
	for _, w := range view.Workers() {
		if isNeighbour(w, id) && strings.HasPrefix(w.Address, host) {
			return true
		}
	}
	return false
}

func isNeighbour(w *fleet.Worker, id fleet.WorkerID) bool {
	return w.ID != id && w.State != fleet.Vanished
}
