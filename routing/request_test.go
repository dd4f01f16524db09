package routing_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/routing"
)

func TestModelAndPartition(t *testing.T) {
	lora := worker(1, "a")
	lora.Adapters = []string{"a-lora"}
	r := newRig(t, routing.Config{ModelHeader: "x-model"}, affinity.Config{}, lora, worker(2, "b"))
	tests := []struct {
		h    headers
		body string
		want fleet.WorkerID
	}{
		{headers{"x-session-id": "s"}, `{"model":"a"}`, 1},
		{headers{"x-session-id": "s"}, `{"model":"b"}`, 2},
		{headers{"x-session-id": "s"}, `{"model":"a-lora"}`, 1},
		{headers{"x-session-id": "s", "x-model": "b"}, `{"model":"a"}`, 2},
		{headers{"x-session-id": "s"}, `{"model":"a"}`, 1},
	}
	for _, tt := range tests {
		rt := r.mustRoute(tt.h, tt.body)
		if rt.Target.Worker != tt.want {
			t.Errorf("%v %s: worker %v, want %d", tt.h, tt.body, rt.Target, tt.want)
		}
		rt.Release(affinity.Completed)
	}
	for _, body := range []string{"", `{}`, `{"model":null}`, `{"model":""}`} {
		if rt := r.mustRoute(headers{"x-session-id": "s"}, body); rt.Reason != routing.NoModel {
			t.Errorf("%q: reason %v, want no_model", body, rt.Reason)
		}
	}
	r.wantRefused(headers{}, `{"model":"c"}`, routing.UnknownModel, routing.NoModel, "served: a, a-lora, b")
	r.wantRefused(headers{}, `{"model":`, routing.BadRequest, routing.Invalid, "")
	r.wantRefused(headers{"x-routing-group": "nobody"}, `{"model":"a"}`, routing.Unavailable, routing.NoWorker, "group")
}

func TestABoundSessionNeedsNoReadableBody(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "a"), worker(2, "b"))
	r.mustRoute(headers{"x-session-id": "s"}, `{"model":"b"}`).Release(affinity.Completed)
	unreadable := headers{"x-session-id": "s", "content-encoding": "snappy"}
	if rt := r.mustRoute(unreadable, "??"); rt.Target.Worker != 2 || rt.Reason != routing.Bound {
		t.Errorf("got %v %v, want worker 2, bound", rt.Target, rt.Reason)
	}
	r.wantRefused(headers{"x-session-id": "new", "content-encoding": "snappy"}, "??", routing.BadRequest, routing.Invalid, "model")
}

func TestABodyThatUnpacksTooLargeIsRefusedAsThat(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "a"), worker(2, "b"))
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	fmt.Fprintf(w, `{"pad":"%s","model":"a"}`, strings.Repeat("x", 1<<20))
	w.Close()
	r.wantRefused(headers{"content-encoding": "gzip"}, packed.String(), routing.TooBig, routing.TooLarge, "model")
}

func TestOneModelNeedsNoBody(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	req, err := r.router.ReadHeaders(headers{}.values)
	if err != nil || r.router.NeedsBody(&req) {
		t.Errorf("NeedsBody with one model: %v, %v; want false", r.router.NeedsBody(&req), err)
	}
	r.live.Publish(fleet.NewView([]fleet.Worker{worker(1, "m"), worker(2, "n")}))
	if !r.router.NeedsBody(&req) {
		t.Error("NeedsBody with two models: want true")
	}
}
