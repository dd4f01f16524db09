package discovery_test

import (
	"testing"
	"time"

	"mooring/internal/discovery"
)

func TestAnExplicitIDAtANewAddressIsTheSameWorkerMoved(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: 30 * time.Second, Settle: time.Second}, func(b *bubble) {
		b.Update("static", []discovery.Spec{{ID: 7, Address: w1}})
		b.run()
		b.wantState(w1, "active")
		b.Update("static", []discovery.Spec{{ID: 7, Address: w2}})
		if n := len(b.Live().View().Workers()); n != 1 {
			b.t.Errorf("there are %d workers, want one", n)
		}
		b.wantState(w2, "unhealthy") // nothing is known of the new address
		b.wait(time.Second)
		b.wantState(w2, "active")
		if w := b.worker(w2); w.ID != 7 || w.Address != w2 {
			b.t.Errorf("it is %v at %s", w.ID, w.Address)
		}
	})
}

func TestAProbeOfAnEarlierAddressIsVoid(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.are(mute, w1)
		b.Update("static", []discovery.Spec{{ID: 7, Address: w1}})
		b.begin()
		b.wait(10 * time.Millisecond)
		b.Update("static", []discovery.Spec{{ID: 7, Address: w2}})
		<-b.Settled()
		b.wantState(w2, "active")
		b.wait(1500 * time.Millisecond) // the old probe times out
		b.wantState(w2, "active")
		b.wantMetric(`mooring_worker_probe_failures_total{cause="timeout"}`, 0)
	})
}

func TestAProbeOfAForgottenWorkerIsVoid(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) { // no grace
		b.are(mute, w1)
		b.Update("static", []discovery.Spec{{ID: 7, Address: w1}})
		b.begin()
		b.wait(10 * time.Millisecond)
		b.Update("static", nil)
		b.Update("static", []discovery.Spec{{ID: 7, Address: w2}})
		b.wait(1500 * time.Millisecond) // the old probe times out
		b.wantState(w2, "active")
		b.wantMetric(`mooring_worker_probe_failures_total{cause="timeout"}`, 0)
	})
}
