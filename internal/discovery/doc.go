// Package discovery knows who is there. It takes the lists of its sources
// (the configuration, the workers file), resolves names, probes every listed
// worker, and publishes the outcome as views of the one fleet.Live that it owns.
// It does not read files and decides nothing about requests.
//
// # States
//
// A listed worker that is told to drain is draining, whatever its probes say:
// that it stops answering is part of leaving. Otherwise it is active if its
// probes pass and unhealthy if not. A worker that has never passed a probe at
// its address becomes active with the first that passes; one that was active
// becomes unhealthy after Health.UnhealthyAfter failures in a row and active
// again after Health.HealthyAfter passes in a row. A worker that no source
// lists is vanished for Config.Grace and then forgotten; if it comes back
// earlier, it goes on as it was and is probed at once.
//
// # Identity
//
// A worker is its id. An id that is derived from the configured address changes
// with it: a new address is a new worker. An id that the configuration gives
// stays, and so does the id of a name that now resolves to another address:
// that is the same worker, moved. It keeps its sessions, but nothing is known of
// the new address, so it is unhealthy until a probe passes there and, since
// Envoy has to learn the address, for Config.Settle.
//
// # Doubt
//
// An answer that is empty, or lacks more than half of a source's workers, is
// not believed for Config.Grace: the missing workers stay listed, and their
// probes decide. See source. A source that cannot answer at all has said
// nothing, so what it said before stays.
//
// # Load
//
// A Scraper, apart from the rest, reads what active workers say of their load in
// their metrics. It publishes no views: load changes all the time, and nothing
// but a choice looks at it.
//
// # Order and blocking
//
// All methods are safe for concurrent use and wait for no network. What Update
// and SetHealth change is published before they return; what probes, names and
// the clock change is published at once, but at most every 50 ms.
package discovery
