package reconcile

import (
	"testing"
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
)

func TestFeedsFollowTheConfiguration(t *testing.T) {
	w := testWorker(7)
	w.KVEvents, w.KVReplay, w.Ranks = "tcp://10.0.0.7:5557", "tcp://10.0.0.7:6557", 2
	silent := testWorker(8)
	want := wantedFeeds(fleet.NewView([]fleet.Worker{w, silent}), 16)
	if len(want) != 2 || want[kvstate.Worker{WorkerID: 7, DPRank: 1}].blockSize != 16 {
		t.Fatalf("%+v", want)
	}
	c := newCore(fleet.NewView(nil), time.Second, time.Minute)
	f := feeds{want: want, running: make(map[kvstate.Worker]*runningFeed)}
	if start, stop := f.arrange(c); len(start) != 2 || len(stop) != 0 {
		t.Errorf("%d start, %d stop", len(start), len(stop))
	}
	if start, stop := f.arrange(c); len(start)+len(stop) != 0 {
		t.Errorf("unchanged: %d start, %d stop", len(start), len(stop))
	}
	w.Ranks, w.KVEvents = 1, "tcp://10.0.0.7:7777"
	f.want = wantedFeeds(fleet.NewView([]fleet.Worker{w}), 16)
	start, stop := f.arrange(c)
	if len(start) != 0 || len(stop) != 2 {
		t.Errorf("changed: %d start, %d stop: a feed starts when the old one has ended", len(start), len(stop))
	}
	for _, r := range stop {
		f.ended(c, r.spec)
	}
	if start, stop := f.arrange(c); len(start) != 1 || len(stop) != 0 {
		t.Errorf("then: %d start, %d stop", len(start), len(stop))
	}
}
