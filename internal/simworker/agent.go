package simworker

import (
	"fmt"
	"log/slog"
	"sync"

	"mooring/internal/zmqsock"
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
)

// hashFormat is the version of the hashes in events, for cache semantics.
const hashFormat = 1

// agent is the state agent of one rank: it keeps what its engine and its host
// pool hold, numbers every change, publishes it, and answers questions about
// it. All that changes it is called by one goroutine (see lane); answers may be
// given at the same time.
type agent struct {
	cfg       StateAgent
	blockSize int
	identity  kvstate.AgentIdentity
	home      kvstate.Worker // the engine in this process
	records   recordDir
	logger    *slog.Logger

	// Set by open.
	publisher *zmqsock.Publisher
	control   kvstate.Instance
	raw       string // the engine's own KV events

	batches uint64 // published, or withheld; owned by the lane

	mu struct {
		sync.Mutex
		fault      AgentFault
		cursor     uint64 // id of the last event
		generation uint64 // of the last attachment
		attachment *kvstate.AttachmentStatus
		ring       []kvstate.RouterEvent // the last events, the oldest first
		worker     residency             // the engine's cache
		owner      residency             // the host pool
	}
}

// newAgent returns the agent of a rank, without anything attached.
func newAgent(cfg Config, rank int) (*agent, error) {
	owner, err := cacheOwner(cfg, rank)
	if err != nil {
		return nil, err
	}
	a := &agent{
		cfg: cfg.Agent, blockSize: cfg.BlockSize, records: recordDir(cfg.Agent.Dir), logger: cfg.Logger,
		home: kvstate.Worker{WorkerID: cfg.Agent.WorkerID, DPRank: uint32(rank)},
		identity: kvstate.AgentIdentity{
			CacheOwnerID: owner, PublisherID: cfg.Agent.PublisherID + uint64(rank), ProtocolVersion: kvstate.V2,
		},
	}
	a.mu.fault = cfg.Agent.Fault
	return a, nil
}

// servingEndpoint names what the workers of a model serve.
func servingEndpoint() kvstate.EndpointID {
	return kvstate.EndpointID{Namespace: "mooring", Component: "simworker", Name: "generate"}
}

// cacheOwner returns the identity of a rank's KV pool: that of the model, the
// block size and the name that the pool was given.
func cacheOwner(cfg Config, rank int) (kvstate.CacheOwnerID, error) {
	slot, err := kvstate.ExplicitStableDPSlot(fmt.Sprintf("%s/%d", cfg.Agent.CacheOwner, rank))
	if err != nil {
		return kvstate.CacheOwnerID{}, fmt.Errorf("cache owner %q: %w", cfg.Agent.CacheOwner, err)
	}
	return kvstate.CacheOwnerID{
		Pool: kvstate.PoolID{
			IndexerDomain: kvstate.IndexerDomainID{
				CacheSemantics: kvstate.DefaultCacheSemantics(cfg.Models[0], uint32(cfg.BlockSize), hashFormat),
				RoutingScope:   kvstate.DefaultRoutingScope(servingEndpoint()),
			},
			DC: kvstate.DeriveDC("local"),
		},
		Slot: slot,
	}, nil
}

// apply takes what the engine and the host pool changed. The engine's part
// counts only while the engine in this process is the one that is attached.
func (a *agent) apply(changes []change) {
	a.mu.Lock()
	var events []kvstate.RouterEvent
	at := a.mu.attachment
	engine := at != nil && at.Ready && at.Worker == a.home
	for i := range changes {
		if changes[i].host || engine {
			events = append(events, a.emitLocked(a.event(&changes[i])))
		}
	}
	a.mu.Unlock()
	a.publish(events)
}

// event says what a change is to a router.
func (a *agent) event(c *change) kvstate.RouterEvent {
	e := kvstate.RouterEvent{
		WorkerID: a.home.WorkerID, DPRank: a.home.DPRank, Tier: kvstate.Device,
		Domain: kvstate.InDomain(kvstate.WorkerDomain), StateSource: &a.identity.CacheOwnerID,
	}
	if c.host {
		e.WorkerID, e.DPRank, e.Tier, e.Domain = 0, 0, kvstate.HostPinned, kvstate.InDomain(kvstate.CacheOwnerDomain)
	}
	switch c.kind {
	case blocksStored:
		e.Kind = kvstate.Stored
		e.Store = kvstate.StoreData{HasParent: !c.root}
		if !c.root {
			e.Store.Parent = c.parent.external()
		}
		local := blockhash.Append(nil, c.tokens, a.blockSize, blockhash.Seed(c.ns.adapter, c.ns.salt))
		for i, key := range c.keys {
			e.Store.Blocks = append(e.Store.Blocks, kvstate.Block{External: key.external(), Local: local[i]})
		}
	case blocksRemoved:
		e.Kind = kvstate.Removed
		for _, key := range c.keys {
			e.Removed = append(e.Removed, key.external())
		}
	case blocksCleared:
		e.Kind = kvstate.Cleared
	}
	return e
}

// emitLocked gives an event its number and applies it here.
func (a *agent) emitLocked(e kvstate.RouterEvent) kvstate.RouterEvent {
	a.mu.cursor++
	e.EventID = a.mu.cursor
	held := &a.mu.worker
	if e.Tier == kvstate.HostPinned {
		held = &a.mu.owner
	}
	switch e.Kind {
	case kvstate.Stored:
		held.store(&e.Store)
	case kvstate.Removed:
		held.remove(e.Removed)
	case kvstate.Cleared:
		held.clear()
	}
	if len(a.mu.ring) >= 2*a.cfg.Buffer { // amortized: the last Buffer events stay
		a.mu.ring = append(a.mu.ring[:0], a.mu.ring[len(a.mu.ring)-a.cfg.Buffer:]...)
	}
	a.mu.ring = append(a.mu.ring, e)
	return e
}

// publish sends events as one message of the topic, the number of the batch
// and a MessagePack array. It does not block.
func (a *agent) publish(events []kvstate.RouterEvent) {
	if len(events) == 0 {
		return
	}
	seq := a.batches
	a.batches++
	payload, err := kvstate.AppendEvents(nil, events)
	a.mu.Lock()
	withheld := a.mu.fault == AgentBehind && a.mu.attachment != nil
	a.mu.Unlock()
	if n := uint64(a.cfg.DropEvery); withheld || n > 0 && seq%n == n-1 {
		return
	}
	if err == nil {
		err = a.publisher.Publish([][]byte{[]byte(kvstate.EventTopic), sequence64(seq), payload})
	}
	if err != nil { // the ids are used up: routers see a gap
		a.logger.Warn("publish state events", "rank", a.home.DPRank, "batch", seq, "err", err)
	}
}
