package affinity

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/internal/fleet"
)

func TestUnpinOutlivesItsPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, live := newTestResolver(t, Config{TTL: time.Minute, Grace: 30 * time.Second})
		table, _ := r.Table(mooring)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		old := fromReplica(fleet.OnRank(1, 0), 5, 9, time.Hour)
		wantApplied(t, table, old, Inserted)
		wantApplied(t, table, unpinned("s", 6, 10*time.Minute), Inserted)
		live.Publish(fleet.NewView(nil))
		time.Sleep(5 * time.Minute)
		live.Publish(fleetOf(fleet.Active))
		table, _ = r.Table(mooring)
		wantApplied(t, table, old, Floored)
		live.Publish(fleet.NewView(nil))
		time.Sleep(5*time.Minute + sweepEvery)
		if _, ok := r.Table(mooring); ok {
			t.Error("the table stays although the unpin has ended")
		}
	})
}

// A source that invents models, each with an unpin, must not keep new partitions
// out: some tables of absent ones go then, those longest away first.
func TestUnpinsOfAbsentPartitionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		r, live := newTestResolver(t, Config{Grace: 3 * time.Second, Registerer: registry})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		for i := range maxTables {
			if i == spareTables+2 {
				time.Sleep(2 * sweepEvery) // all but the last one are away since before the others
			}
			p := fleet.Partition{Model: fmt.Sprint("m", i), Group: fleet.DefaultName}
			live.Publish(fleet.NewView([]fleet.Worker{{ID: 1, Address: "10.0.0.1:8000", Models: []string{p.Model}, Group: p.Group, Ranks: 1, State: fleet.Active}}))
			table, ok := r.Table(p)
			if !ok {
				t.Fatalf("no table for partition %d", i)
			}
			table.Unpin("s")
		}
		live.Publish(fleetOf(fleet.Active))
		if _, ok := r.Table(mooring); ok {
			t.Fatal("there is no bound")
		}
		time.Sleep(5 * time.Second)
		if _, ok := r.Table(mooring); !ok {
			t.Error("there is no room for a new partition")
		}
		time.Sleep(5 * time.Second)
		left := len(*r.tables.Load())
		for i := range maxTables {
			_, ok := r.Table(fleet.Partition{Model: fmt.Sprint("m", i), Group: fleet.DefaultName})
			if stays := i > spareTables; ok != stays { // mooring's table took one more place
				t.Errorf("table %d is there: %v, want %v", i, ok, stays)
			}
		}
		if left != maxTables-spareTables || !slices.Contains(scraped(t, registry), fmt.Sprint("mooring_session_floors_evicted_total ", spareTables+1)) {
			t.Errorf("%d tables are left; %v", left, scraped(t, registry))
		}
	})
}
