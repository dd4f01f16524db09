package routing

import (
	"slices"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// residency is where the blocks of a partition's workers are, as one choice sees
// it.
type residency struct {
	index      *index.Index
	others     []*index.Index // further ones, with blocks of the same size; nearly always none
	projection *kvstate.Projection
	blockSize  int
	windows    index.Windows
}

// residency returns a partition's KV state. False if it has none: nobody
// publishes events there, or nothing was stored yet and the size of a block is
// not configured.
//
// A worker's blocks are in the index of its home partition, under whichever of its
// models it is asked. Homes whose blocks have another size than the first one's
// are left out: a prompt is cut once.
func (r *Router) residency(view *fleet.View, p fleet.Partition) (where residency, ok bool) {
	if r.cfg.Index == nil || r.cfg.Controller == nil {
		return residency{}, false
	}
	var last fleet.Partition
	for _, w := range view.Members(p) {
		if home := w.Home(); home != last {
			last = home
			where.add(r.cfg.Index, home)
		}
	}
	where.projection = r.cfg.Controller.Projection()
	return where, where.index != nil
}

func (where *residency) add(set *index.Set, home fleet.Partition) {
	ix, ok := set.Partition(home)
	if !ok {
		return
	}
	switch size := ix.BlockSize(); {
	case size == 0 || ix == where.index:
		return
	case where.index == nil:
		where.index, where.blockSize = ix, size
	case size != where.blockSize || slices.Contains(where.others, ix):
		return
	default:
		where.others = append(where.others, ix)
	}
	where.windows |= ix.Windows()
}

// overlay fills in what the candidates hold of the prompt: by the kind of windows
// by which that is more.
func (c *choice) overlay(where residency) {
	for _, local := range [...][]uint64{c.prompt.local, c.prompt.eagle} {
		if len(local) == 0 {
			continue
		}
		c.overlayOne(where.index, where.projection, local)
		for _, other := range where.others {
			c.overlayOne(other, where.projection, local)
		}
	}
}

func (c *choice) overlayOne(ix *index.Index, projection *kvstate.Projection, local []uint64) {
	ix.Match(projection, local, &c.matches)
	for i := range c.rows {
		row := &c.rows[i]
		if !row.target.Ranked {
			continue
		}
		m := c.matches.Of(kvstate.Worker{WorkerID: uint64(row.target.Worker), DPRank: row.target.Rank})
		if m.Blocks() > row.overlap.Blocks() {
			row.overlap = Overlap{Device: m.Device, Host: m.HostPinned, Disk: m.Disk, Shared: m.External, Holed: m.Holed}
		}
	}
}
