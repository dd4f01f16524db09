package simworker

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// took returns how long a request takes.
func took(t *testing.T, w *Worker, body string) time.Duration {
	t.Helper()
	begin := time.Now()
	rec := ask(t, w.Handler(), "POST", "/v1/completions", body)
	if rec.Code != 200 {
		t.Fatalf("%d: %s", rec.Code, rec.Body)
	}
	return time.Since(begin)
}

func TestCachedShareShortensTheFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, Config{BlockSize: 4, FirstToken: time.Second, PerToken: 10 * time.Millisecond})
		for _, c := range []struct {
			body string
			want time.Duration
		}{
			{`{"prompt":[1,2,3,4,5,6,7,8],"max_tokens":1}`, time.Second},
			{`{"prompt":[1,2,3,4,5,6,7,8],"max_tokens":1}`, 500 * time.Millisecond},                             // 4 of 8
			{`{"prompt":[1,2,3,4,5,6,7,8],"max_tokens":3}`, 520 * time.Millisecond},                             // and two more tokens
			{`{"prompt":[1,2,3,4,5,6,7,8,9,9],"max_tokens":1}`, 200 * time.Millisecond},                         // 8 of 10
			{`{"prompt":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"max_tokens":1}`, time.Second},        // no length, no longer
			{`{"prompt":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"max_tokens":1}`, time.Second / 10}, // 24 of 25: the floor
		} {
			if got := took(t, w, c.body); got != c.want {
				t.Errorf("%s took %v, want %v", c.body, got, c.want)
			}
		}
	})
}

func TestLatencyHistograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, Config{FirstToken: time.Second, PerToken: 10 * time.Millisecond})
		took(t, w, `{"prompt":"x","max_tokens":5}`)
		f := scraped(t, w.Handler())
		for name, want := range map[string]float64{
			"vllm:time_to_first_token_seconds":           1,
			"vllm:request_time_per_output_token_seconds": 0.01,
			"vllm:e2e_request_latency_seconds":           1.04,
		} {
			if got := f[name].Metric[0].Histogram.GetSampleSum(); got != want {
				t.Errorf("%s has %v, want %v", name, got, want)
			}
		}
	})
}

// started runs a request in a goroutine of the bubble; the answer comes when
// it has ended, nil if the response was cut off.
func started(ctx context.Context, w *Worker, path, body string, headers ...string) <-chan *httptest.ResponseRecorder {
	out := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		var rec *httptest.ResponseRecorder
		if aborted(func() { rec = askCtx(ctx, w.Handler(), "POST", path, body, headers...) }) {
			rec = nil
		}
		out <- rec
	}()
	return out
}

func (w *Worker) busy(rank int) (running, waiting int, usage float64) {
	f := w.engine.figures()[rank]
	return f.running, f.waiting, f.usage
}

func TestClientThatLeavesFreesEverything(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // the first token comes after 1s, and one more each second
		body  string
		left  int // tokens of a next turn found in the cache
	}{
		{"before the first token", 500 * time.Millisecond, `{"prompt":[1,2,3,4,5,6,7,8],"max_tokens":100,"stream":true}`, 0},
		{"whole, before the first token", 500 * time.Millisecond, `{"prompt":[1,2,3,4,5,6,7,8],"max_tokens":100}`, 0},
		{"amid tokens", 2500 * time.Millisecond, `{"prompt":[1,2,3,4,5,6,7,8],"max_tokens":100,"stream":true}`, 8},
		{"whole, amid tokens", 2500 * time.Millisecond, `{"prompt":[1,2,3,4,5,6,7,8],"max_tokens":100}`, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorker(t, Config{BlockSize: 4, FirstToken: time.Second, PerToken: time.Second})
				ctx, leave := context.WithCancel(t.Context())
				answer := started(ctx, w, "/v1/completions", c.body)
				time.Sleep(c.after)
				if running, _, usage := w.busy(0); running != 1 || usage != 27.0/4096 {
					t.Errorf("%d running, usage %v", running, usage)
				}
				leave()
				begin := time.Now()
				if <-answer != nil {
					t.Error("the response was not cut off")
				}
				if waited := time.Since(begin); waited != 0 {
					t.Errorf("the request went on for %v", waited)
				}
				if running, waiting, usage := w.busy(0); running != 0 || waiting != 0 || usage != 0 {
					t.Errorf("%d running, %d waiting, usage %v", running, waiting, usage)
				}
				f := scraped(t, w.Handler())
				if n := figure(t, f, "vllm:request_success_total", "0", "finished_reason", "abort"); n != 1 {
					t.Errorf("%v aborted", n)
				}
				next := decode[completionBody](t, ask(t, w.Handler(), "POST", "/v1/completions", `{"prompt":[1,2,3,4,5,6,7,8,9],"max_tokens":1}`))
				if got := next.Usage.Details.CachedTokens; got != c.left {
					t.Errorf("%d tokens cached, want %d", got, c.left)
				}
			})
		})
	}
}

func TestRequestsWaitForBlocksInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, Config{Tokens: 4, BlockSize: 4, CacheBlocks: 4, FirstToken: time.Second})
		const body = `{"prompt":[1,2,3,4,5,6],"max_tokens":4}` // 3 blocks of 4
		begin := time.Now()
		var answers []<-chan *httptest.ResponseRecorder
		ctxs := make([]context.CancelFunc, 3)
		for i := range 3 {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			ctxs[i] = leave
			answers = append(answers, started(ctx, w, "/v1/completions", strings.Replace(body, "1", string(rune('1'+i)), 1)))
			synctest.Wait()
		}
		if running, waiting, usage := w.busy(0); running != 1 || waiting != 2 || usage != 0.75 {
			t.Errorf("%d running, %d waiting, usage %v", running, waiting, usage)
		}
		f := scraped(t, w.Handler())
		if n := figure(t, f, "vllm:num_requests_waiting", "0"); n != 2 {
			t.Errorf("metric: %v waiting", n)
		}
		ctxs[1]() // the first to wait leaves
		if <-answers[1] != nil {
			t.Error("the response was not cut off")
		}
		if _, waiting, _ := w.busy(0); waiting != 1 {
			t.Errorf("%d waiting after one has left", waiting)
		}
		<-answers[0]
		if got := time.Since(begin); got != time.Second {
			t.Errorf("the first took %v", got)
		}
		if rec := <-answers[2]; rec == nil || rec.Code != 200 {
			t.Errorf("the last got %v", rec)
		}
		if got := time.Since(begin); got != 2*time.Second {
			t.Errorf("the last was done after %v, want the first's second and its own", got)
		}
		if running, waiting, usage := w.busy(0); running != 0 || waiting != 0 || usage != 0 {
			t.Errorf("%d running, %d waiting, usage %v", running, waiting, usage)
		}
	})
}

func TestLeastBusyRankServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, Config{Ranks: 3, FirstToken: time.Second})
		pinned := started(t.Context(), w, "/v1/completions", `{"prompt":"x"}`, "X-data-parallel-rank", "0")
		synctest.Wait()
		var answers []<-chan *httptest.ResponseRecorder
		for range 4 {
			answers = append(answers, started(t.Context(), w, "/v1/completions", `{"prompt":"x"}`))
			synctest.Wait()
		}
		var got []string
		for _, a := range answers {
			got = append(got, (<-a).Header().Get("X-Sim-Rank"))
		}
		if <-pinned; strings.Join(got, " ") != "1 2 0 1" {
			t.Errorf("ranks %v, want 1 2 0 1", got)
		}
	})
}

func TestWaitingQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, Config{Tokens: 4, BlockSize: 4, CacheBlocks: 4, FirstToken: time.Hour, Ranks: 2})
		ctx, leave := context.WithCancel(t.Context())
		var answers []<-chan *httptest.ResponseRecorder
		for range maxWaiting + 1 {
			answers = append(answers, started(ctx, w, "/v1/completions", `{"prompt":[1,2,3,4,5,6],"max_tokens":4}`, "X-data-parallel-rank", "1"))
		}
		synctest.Wait()
		rec := ask(t, w.Handler(), "POST", "/v1/completions", `{"prompt":"x"}`, "X-data-parallel-rank", "1")
		if rec.Code != 503 {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
		leave()
		for _, a := range answers {
			<-a
		}
		if running, waiting, usage := w.busy(1); running != 0 || waiting != 0 || usage != 0 {
			t.Errorf("%d running, %d waiting, usage %v", running, waiting, usage)
		}
		if n := scraped(t, w.Handler())["simworker_refused_total"].Metric[0].Counter.GetValue(); n != 1 {
			t.Errorf("%v refusals counted", n)
		}
	})
}
