package benchhit

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
	"mooring/routing"
)

// mooring is the policy of the real thing: router, session table and block index,
// with the defaults of an empty configuration. As by default, nobody tells it when
// a response begins.
type mooring struct {
	live       *fleet.Live
	index      *index.Set
	blocks     *index.Index
	controller *kvstate.Controller
	router     *routing.Router
	workers    map[fleet.WorkerID]*worker
}

func partition() fleet.Partition {
	return fleet.Partition{Model: "model", Group: fleet.DefaultName}
}

func newMooring() (policy, error) {
	p := &mooring{
		live: fleet.NewLive(fleet.NewView(nil)), index: index.NewSet(index.Config{}), controller: kvstate.NewController(),
		workers: make(map[fleet.WorkerID]*worker),
	}
	p.blocks = p.index.Open(partition())
	p.blocks.SetBlockSize(blockSize)
	sessions, err := affinity.NewResolver(p.live, affinity.Config{WhenGone: affinity.Rebind, WriterID: 1})
	if err != nil {
		return nil, err
	}
	p.router = routing.NewRouter(p.live, sessions, routing.Config{
		SessionHeaders: []string{"x-session-id"}, Index: p.index, Controller: p.controller, Weights: routing.DefaultWeights(),
	})
	return p, nil
}

// life names a worker in its present life: a replaced worker is another one.
func life(w *worker) kvstate.Worker {
	return kvstate.Worker{WorkerID: uint64(w.index+1)<<16 | uint64(w.lives)}
}

func owner(w *worker) index.Owner {
	return index.Owner{Key: kvstate.WorkerKey(life(w)), Domain: kvstate.WorkerDomain}
}

func (p *mooring) fleet(w *worker) {
	id := fleet.WorkerID(life(w).WorkerID)
	cacheOwner := kvstate.CacheOwnerID{}
	cacheOwner.Pool.DC = kvstate.DCID(id)
	if w.alive {
		p.workers[id] = w
		p.controller.Update(kvstate.Resolution{Owner: cacheOwner, State: kvstate.Ready, Worker: life(w)})
	} else {
		delete(p.workers, id)
		p.controller.Update(kvstate.Resolution{Owner: cacheOwner, State: kvstate.Unavailable})
		p.blocks.Clear(owner(w))
	}
	var list []fleet.Worker
	for id, w := range p.workers {
		list = append(list, fleet.Worker{
			ID: id, Address: fmt.Sprintf("10.0.0.%d:8000", w.index), Models: []string{partition().Model}, Group: partition().Group,
			Ranks: 1, State: fleet.Active,
		})
	}
	p.live.Publish(fleet.NewView(list))
}

func (p *mooring) stored(w *worker, c change, r *request) {
	if c.removed {
		p.blocks.Remove(owner(w), kvstate.Device, c.blocks)
		return
	}
	blocks := make([]kvstate.Block, len(c.blocks))
	for i, hash := range c.blocks {
		blocks[i] = kvstate.Block{External: hash, Local: r.local[c.at+i]}
	}
	p.blocks.Store(owner(w), kvstate.Device, c.parent, c.hasParent, blocks)
}

func (p *mooring) choose(_ time.Duration, r *request, _ []*worker) (*worker, func()) {
	route, err := p.route(r)
	if err != nil {
		panic(fmt.Sprintf("conversation %d, turn %d: %v", r.conversation.id, r.turn, err)) // a worker is alive: the router must find one
	}
	return p.workers[route.Target.Worker], func() { route.Release(affinity.Completed) }
}

// route asks the router as extproc does: for the body only if it is wanted.
func (p *mooring) route(r *request) (*routing.Route, error) {
	session := []string{strconv.Itoa(r.conversation.id)}
	req, err := p.router.ReadHeaders(func(name string) []string {
		if name == "x-session-id" {
			return session
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if p.router.WantsBody(&req) {
		body, err := json.Marshal(map[string]any{"model": partition().Model, "prompt": r.prompt})
		if err != nil {
			return nil, err
		}
		if err := p.router.ReadBody(&req, "", body); err != nil {
			return nil, err
		}
	}
	return p.router.Route(context.Background(), &req)
}
