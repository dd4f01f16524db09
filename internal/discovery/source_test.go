package discovery_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mooring/internal/discovery"
	"mooring/internal/fleet"
)

func TestAnEmptyAnswerIsDoubtedForTheGrace(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: 30 * time.Second}, func(b *bubble) {
		b.Update("file", specs(w1, w2, w3))
		b.run()
		b.Update("file", nil)
		doubted := time.Now()
		b.Update("file", nil)
		for _, w := range []string{w1, w2, w3} {
			b.wantState(w, "active")
		}
		b.wantMetric(`mooring_worker_doubts_total{source="file"}`, 1)
		b.wantMetric(`mooring_workers_doubted{source="file"}`, 3)
		b.wantLogged("too few to be believed", 1)

		b.are(dead, w3) // its probes decide
		b.wait(10 * time.Second)
		b.wantState(w3, "unhealthy")
		b.wait(30*time.Second - time.Millisecond - time.Since(doubted))
		b.wantState(w1, "active")
		b.wait(time.Millisecond + publishGap)
		for _, w := range []string{w1, w2, w3} {
			b.wantState(w, "vanished")
		}
		for _, w := range b.Live().View().Workers() {
			if w.Doubted {
				b.t.Errorf("%s has vanished and is still doubted", w.Name)
			}
		}
		b.wantMetric(`mooring_workers_doubted{source="file"}`, 0)
		b.wantLogged("believed after the grace", 1)
		b.wait(30 * time.Second)
		if n := len(b.Live().View().Workers()); n != 0 {
			b.t.Errorf("%d workers were not forgotten", n)
		}
	})
}

func TestADoubtEndsWithoutAnyProbe(t *testing.T) {
	inBubble(t, discovery.Config{Grace: 30 * time.Second}, func(b *bubble) {
		b.Update("file", specs(w1))
		b.run()
		b.Update("file", nil)
		b.wait(30*time.Second - time.Nanosecond)
		b.wantState(w1, "active")
		b.wait(time.Nanosecond)
		b.wantState(w1, "vanished")
		b.wait(30 * time.Second)
		b.wantState(w1, "")
	})
}

func TestAnAnswerThatListsThemAgainEndsTheDoubt(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: 30 * time.Second}, func(b *bubble) {
		b.Update("file", specs(w1, w2, w3))
		b.run()
		before := b.Live().View()
		b.Update("file", specs(w1))
		b.wait(20 * time.Second)
		doubted := 0
		for _, w := range b.Live().View().Workers() {
			if w.Doubted {
				doubted++
			}
		}
		if doubted != 2 {
			b.t.Errorf("%d workers are marked as doubted, want the 2 that are missing", doubted)
		}
		b.Update("file", specs(w3, w2, w1))
		b.wait(time.Hour)
		if diff := cmp.Diff(before.Workers(), b.Live().View().Workers()); diff != "" {
			b.t.Errorf("the doubt left a trace in the view: %s", diff)
		}
		b.wantMetric(`mooring_workers_doubted{source="file"}`, 0)
		b.wantLogged("lists them again", 1)
	})
}

func TestASourceThatCannotAnswerKeepsItsWorkers(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: 30 * time.Second}, func(b *bubble) {
		b.Update("file", specs(w1))
		b.run()
		for range 3 {
			b.SourceFailed("file", errors.New("line 7: what is this?"))
		}
		b.SourceFailed("other", errors.New("never answered"))
		b.wait(time.Hour)
		b.wantState(w1, "active")
		b.wantMetric(`mooring_worker_source_failures_total{source="file"}`, 3)
		b.wantMetric(`mooring_worker_source_failing{source="file"}`, 1)
		b.wantLogged("line 7", 1)
		b.Update("file", specs(w1))
		b.wantMetric(`mooring_worker_source_failing{source="file"}`, 0)
		b.wantLogged("answers again", 1)
	})
}

func TestTheFirstSourceByNameWins(t *testing.T) {
	inBubble(t, discovery.Config{}, func(b *bubble) {
		listedBy := func(group string) []discovery.Spec {
			return []discovery.Spec{{ID: 7, Address: w1, Group: group}}
		}
		b.Update("static", listedBy("of static"))
		b.Update("file", listedBy("of file"))
		b.Update("file", listedBy("of file"))
		if w := b.worker(w1); w.Group != "of file" {
			b.t.Errorf("it is in group %q", w.Group)
		}
		b.wantMetric(`mooring_workers_refused_total{source="static"}`, 1)
		b.wantLogged("source file lists its id too", 1)
		b.Update("file", nil)
		if w := b.worker(w1); w.Group != "of static" {
			b.t.Errorf("it is in group %q after the first source gave it up", w.Group)
		}
	})
}

func TestBadEntriesAreLeftOut(t *testing.T) {
	inBubble(t, discovery.Config{}, func(b *bubble) {
		b.Update("file", []discovery.Spec{
			{ID: 1, Address: w1},
			{ID: 1, Address: w2},
			{ID: 3, Address: ""},
			{ID: 4, Address: "10.0.0.4"},
			{ID: 5, Address: "10.0.0.5:0"},
			{ID: 6, Address: w3},
		})
		b.wantState(w1, "active")
		b.wantState(w3, "active")
		if n := len(b.Live().View().Workers()); n != 2 {
			b.t.Errorf("there are %d workers, want the two good ones", n)
		}
		b.wantMetric(`mooring_workers_refused_total{source="file"}`, 4)
	})
}

func TestAWorkerThatLosesItsAddressIsGone(t *testing.T) {
	inBubble(t, discovery.Config{Grace: 30 * time.Second}, func(b *bubble) {
		list := []discovery.Spec{{ID: 1, Address: w1}, {ID: 2, Address: w2}}
		b.Update("file", list)
		list[0].Address = ""
		b.Update("file", list)
		b.wantState(w1, "vanished")
		b.wantState(w2, "active")
	})
}

func TestUpdateCopiesWhatItKeeps(t *testing.T) {
	inBubble(t, discovery.Config{}, func(b *bubble) {
		list := []discovery.Spec{{
			Address: "[2001:db8::7]:8000", Models: []string{"m"}, Adapters: []string{"a"}, Group: "g", Ranks: 4,
			KVEvents: "tcp://[2001:db8::7]:5557", KVReplay: "tcp://[2001:db8::7]:5558", BlockSize: 16,
		}}
		b.Update("file", list)
		list[0].Models[0], list[0].Adapters[0] = "changed", "changed"
		w := b.worker("[2001:db8::7]:8000")
		if w.Models[0] != "m" || w.Adapters[0] != "a" {
			b.t.Errorf("the view changed with the caller's slice: %v, %v", w.Models, w.Adapters)
		}
		if w.ID != fleet.DeriveWorkerID("[2001:db8::7]:8000") || w.Address != "[2001:db8::7]:8000" || w.Group != "g" || w.Ranks != 4 ||
			w.KVEvents != "tcp://[2001:db8::7]:5557" || w.KVReplay != "tcp://[2001:db8::7]:5558" || w.BlockSize != 16 {
			b.t.Errorf("the view has %+v", *w)
		}
	})
}
