package simworker

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func newWorker(t *testing.T, cfg Config) *Worker {
	t.Helper()
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// ask sends a request to a handler in-process. headers are pairs.
func ask(t *testing.T, h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return askCtx(t.Context(), h, method, path, body, headers...)
}

func askCtx(ctx context.Context, h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

// aborted runs serve and reports whether it cut the response off.
func aborted(serve func()) (cut bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != http.ErrAbortHandler {
				panic(r)
			}
			cut = true
		}
	}()
	serve()
	return false
}

func decode[T any](t *testing.T, rec *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v: %s", err, rec.Body)
	}
	return v
}

// eventsOf parses a whole event stream and checks its framing.
func eventsOf(t *testing.T, body io.Reader) []completionBody {
	t.Helper()
	var out []completionBody
	done := false
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || done {
			t.Fatalf("line %q, after the end %v", lines.Text(), done)
		}
		if !lines.Scan() || lines.Text() != "" {
			t.Fatalf("the event %q is not followed by an empty line", data)
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var chunk completionBody
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		out = append(out, chunk)
	}
	if !done {
		t.Fatal("the stream does not end with [DONE]")
	}
	return out
}

// scraped reads /metrics.
func scraped(t *testing.T, h http.Handler) map[string]*dto.MetricFamily {
	t.Helper()
	rec := ask(t, h, "GET", "/metrics", "")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(rec.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// figure returns the value of a metric for one rank, with one more label if
// given as a pair.
func figure(t *testing.T, families map[string]*dto.MetricFamily, name, engine string, label ...string) float64 {
	t.Helper()
	want := map[string]string{"engine": engine}
	if len(label) == 2 {
		want[label[0]] = label[1]
	}
	f, ok := families[name]
	if !ok {
		t.Fatalf("no metric %s", name)
	}
	for _, m := range f.Metric {
		matched := 0
		for _, pair := range m.Label {
			if want[pair.GetName()] == pair.GetValue() {
				matched++
			}
		}
		if matched == len(want) {
			switch {
			case m.Gauge != nil:
				return m.Gauge.GetValue()
			case m.Counter != nil:
				return m.Counter.GetValue()
			}
			return float64(m.Histogram.GetSampleCount())
		}
	}
	t.Fatalf("no %s for %v", name, want)
	return 0
}
