package extproc

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
	"mooring/kvstate/index"
	"mooring/routing"
)

// withKVState gives the default group's model KV state: worker 2 holds two blocks
// of four tokens, 1 to 8.
func (r *rig) withKVState() {
	r.t.Helper()
	cfg := routing.Config{
		SessionHeaders: []string{"x-session-id"}, GroupHeader: "x-routing-group", MaxBodyBytes: r.server.cfg.MaxBodyBytes,
		Index: index.NewSet(index.Config{}), Controller: kvstate.NewController(), Weights: routing.DefaultWeights(),
	}
	ix := cfg.Index.Open(fleet.Partition{Model: "m", Group: fleet.DefaultName})
	ix.SetBlockSize(4)
	w := kvstate.Worker{WorkerID: 2}
	local := blockhash.Append(nil, []uint32{1, 2, 3, 4, 5, 6, 7, 8}, 4, blockhash.Seed("", ""))
	ix.Store(index.Owner{Key: kvstate.WorkerKey(w)}, kvstate.Device, 0, false, []kvstate.Block{{External: 1, Local: local[0]}, {External: 2, Local: local[1]}})
	cfg.Controller.Update(kvstate.Resolution{State: kvstate.Ready, Worker: w})
	r.server.router = routing.NewRouter(r.live, r.sessions, cfg)
}

const twoBlocksBody = `{"prompt":[1,2,3,4,5,6,7,8,9]}`

func TestANewSessionsBodyIsWaitedForAndABoundOnesIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := newRig(t, func(c *Config) {
			c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		r.withKVState()
		p := r.open()
		if answers := p.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, "x-session-id=s")); len(answers) != 0 {
			t.Fatalf("answered before the body: %v", answers)
		}
		answers := p.ask(requestBodyMessage([]byte(twoBlocksBody), true))
		if len(answers) != 2 || answers[0].GetRequestHeaders() == nil || string(answers[1].GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody()) != twoBlocksBody {
			t.Fatalf("answers %v, want the pick and the body", answers)
		}
		if p.reset(); !strings.Contains(answers[0].String(), "10.0.0.2:8000") {
			t.Errorf("picked by %v, want worker 2", answers[0])
		}
		<-p.result
		if text := out.String(); !strings.Contains(text, "reason=new") || !strings.Contains(text, "overlap=2") || !strings.Contains(text, "cost=4") {
			t.Errorf("request line %s, want reason, overlap and cost", text)
		}

		next := r.open()
		answers = next.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, "x-session-id=s"))
		if len(answers) != 1 || answers[0].GetRequestHeaders() == nil {
			t.Errorf("bound: %v, want the pick before the body", answers)
		}
		next.reset()
		<-next.result
	})
}

func TestTheBodyOfARequestWithoutSessionIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.withKVState()
		p := r.open()
		if answers := p.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false)); len(answers) != 0 {
			t.Fatalf("answered before the body: %v", answers)
		}
		answers := p.ask(requestBodyMessage([]byte(twoBlocksBody), true))
		if text := fmt.Sprint(answers); len(answers) != 2 || !strings.Contains(text, "10.0.0.2:8000") || !strings.Contains(text, "no_session") {
			t.Errorf("picked by %v, want worker 2 for no_session", answers)
		}
		p.reset()
		<-p.result
	})
}

// A prompt is work for its worker until its response begins.
func TestThePromptIsComputedWhenTheResponseBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.withKVState()
		work := func() float64 {
			req := routing.Request{Group: fleet.DefaultName}
			if err := r.server.router.ReadBody(&req, "", []byte(`{"prompt":[9,9,9,9]}`)); err != nil {
				t.Fatal(err)
			}
			for _, c := range r.server.router.Explain(t.Context(), &req).Candidates {
				if c.Target.Worker == 2 {
					return c.Work.Prefill
				}
			}
			t.Fatal("worker 2 is no candidate")
			return 0
		}
		p := r.open()
		p.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, "x-session-id=s"), requestBodyMessage([]byte(twoBlocksBody), true))
		if got := work(); got != 1 {
			t.Errorf("picked: %v blocks to compute, want the one that is not held", got)
		}
		p.ask(responseHeadersMessage(false, ":status=200"))
		if got := work(); got != 0 {
			t.Errorf("the response has begun: %v blocks to compute, want none", got)
		}
		p.reset()
		<-p.result
	})
}

// Who cannot get the body, or cannot read it, is routed all the same.
func TestAWantedBodyThatDoesNotComeIsDoneWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.withKVState()
		p := r.open()
		if answers := p.ask(firstMessage(filterv3.ProcessingMode_NONE, false, "x-session-id=none")); len(answers) != 1 || answers[0].GetRequestHeaders() == nil {
			t.Errorf("no bodies: %v, want the pick", answers)
		}
		p.reset()
		<-p.result
		for _, body := range []string{"no JSON", "", `{"prompt":"text"}`} {
			p := r.open()
			answers := p.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, "x-session-id="+body), requestBodyMessage([]byte(body), true))
			if len(answers) != 2 || answers[0].GetRequestHeaders() == nil {
				t.Errorf("%q: %v, want the pick and the body", body, answers)
			}
			p.reset()
			<-p.result
		}
	})
}
