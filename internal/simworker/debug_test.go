package simworker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestEchoTellsWhatArrived(t *testing.T) {
	h := newWorker(t, Config{MaxBodyBytes: 10}).Handler()
	body := strings.Repeat("x", 1<<20) // more than other endpoints take
	got := decode[echoAnswer](t, ask(t, h, "POST", "/debug/echo", body))
	if got.SHA256 != digest(body) || got.Bytes != 1<<20 {
		t.Errorf("%+v", got)
	}
}

func TestStreamOfChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newWorker(t, Config{}).Handler()
		begin := time.Now()
		rec := ask(t, h, "GET", "/debug/stream?n=3&bytes=2&every=1s", "")
		if rec.Body.String() != "aabbcc" || time.Since(begin) != 2*time.Second {
			t.Errorf("%s after %v", rec.Body, time.Since(begin))
		}
		if got := rec.Result().Trailer.Get(streamDigest); got != digest("aabbcc") {
			t.Errorf("trailer %q", got)
		}
	})
}

func TestDebugQueriesAreBounded(t *testing.T) {
	h := newWorker(t, Config{}).Handler()
	for _, path := range []string{
		"/debug/stream?n=0", "/debug/stream?n=100001", "/debug/stream?bytes=1048577", "/debug/stream?bytes=x",
		"/debug/stream?every=-1s", "/debug/stream?every=1", "/debug/stream?every=2m", "/debug/requests?limit=4097",
	} {
		if rec := ask(t, h, "GET", path, ""); rec.Code != 400 {
			t.Errorf("%s: status %d", path, rec.Code)
		}
	}
}

func TestRequestsAreRemembered(t *testing.T) {
	w := newWorker(t, Config{})
	h := w.Handler()
	ask(t, h, "POST", "/v1/completions?q=1", `{"prompt":"x"}`, "X-Session-Id", "s1", "Authorization", "Bearer secret", "X-Two", "a", "X-Two", "b")
	ask(t, h, "POST", "/v1/completions", `{`, "Thread-Id", "s2")
	ask(t, h, "GET", "/v1/models", "")
	ask(t, h, "PUT", "/elsewhere", "")

	list := decode[receivedList](t, ask(t, h, "GET", "/debug/requests?session=s1", "")).Requests
	if len(list) != 1 {
		t.Fatalf("%d requests of s1", len(list))
	}
	got := list[0]
	if time.Since(got.Time) > time.Minute {
		t.Errorf("time %v", got.Time)
	}
	got.Time = time.Time{}
	want := Received{
		Method: "POST", Path: "/v1/completions", Query: "q=1", Proto: "HTTP/1.1", Host: "example.com",
		Headers:    map[string][]string{"X-Session-Id": {"s1"}, "Authorization": {"(not kept)"}, "X-Two": {"a", "b"}},
		BodySHA256: digest(`{"prompt":"x"}`), BodyBytes: 14, BodyComplete: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for query, n := range map[string]int{"": 4, "?session=s2": 1, "?session=s3": 0, "?limit=2": 2, "?path=/v1/completions": 2} {
		if got := decode[receivedList](t, ask(t, h, "GET", "/debug/requests"+query, "")).Requests; len(got) != n {
			t.Errorf("%q: %d requests, want %d", query, len(got), n)
		}
	}
	all := w.Requests()
	if len(all) != 4 || all[0].Path != "/elsewhere" || all[3].Query != "q=1" {
		t.Errorf("not newest first: %+v", all)
	}
}

func TestMemoryOfRequestsIsBounded(t *testing.T) {
	var h history
	for i := range keptRequests + 10 {
		h.add(Received{BodyBytes: int64(i)})
	}
	all := h.newest(keptRequests+10, func(*Received) bool { return true })
	if len(all) != keptRequests || all[0].BodyBytes != keptRequests+9 || all[keptRequests-1].BodyBytes != 10 {
		t.Errorf("%d kept, from %d to %d", len(all), all[0].BodyBytes, all[len(all)-1].BodyBytes)
	}

	r := httptest.NewRequest("GET", "/", nil)
	for i := range 100 {
		r.Header.Set(fmt.Sprintf("X-%d", i), strings.Repeat("v", 1000))
	}
	rec := received(r)
	size := 0
	for name, values := range rec.Headers {
		size += len(name) + len(values[0])
	}
	if !rec.HeadersCut || size > keptHeaderBytes || size < keptHeaderBytes/2 {
		t.Errorf("%d bytes of headers kept, cut %v", size, rec.HeadersCut)
	}
}
