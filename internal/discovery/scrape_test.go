package discovery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/discovery"
	"mooring/internal/fleet"
)

// pages answers requests for metrics; it is an http.RoundTripper.
type pages struct {
	mu struct {
		sync.Mutex
		running  map[string]int // by address; absent: the worker says nothing of its load
		asked    map[string][]time.Time
		inFlight int
		most     int
	}
	takes time.Duration // how long an answer takes
}

func newPages() *pages {
	p := &pages{}
	p.mu.running, p.mu.asked = make(map[string]int), make(map[string][]time.Time)
	return p
}

func (p *pages) set(address string, running int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.running[address] = running
}

func (p *pages) forget(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.running, address)
}

func (p *pages) asked(address string) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.asked[address]
}

func (p *pages) RoundTrip(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	running, ok := p.mu.running[req.URL.Host]
	p.mu.asked[req.URL.Host] = append(p.mu.asked[req.URL.Host], time.Now())
	p.mu.inFlight++
	p.mu.most = max(p.mu.most, p.mu.inFlight)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.inFlight--
	}()
	select {
	case <-req.Context().Done():
		return nil, req.Context().Err()
	case <-time.After(p.takes):
	}
	page := "up 1\n"
	if ok {
		page = fmt.Sprintf("vllm:num_requests_running{engine=\"0\"} %d\nvllm:num_requests_running{engine=\"1\"} 100\n", running)
	}
	if req.URL.Path != "/metrics" {
		return nil, errors.New("wrong path")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(page))}, nil
}

func activeWorkers(n int) []fleet.Worker {
	workers := make([]fleet.Worker, n)
	for i := range workers {
		workers[i] = fleet.Worker{ID: fleet.WorkerID(i + 1), Address: fmt.Sprintf("10.0.0.%d:80", i+1), Models: []string{"m"}, Group: "g", Ranks: 2, State: fleet.Active}
	}
	return workers
}

// scraping runs a scraper of n active workers, whose answers take a while, once a
// second, in a bubble.
func scraping(t *testing.T, n int, takes time.Duration, body func(p *pages, live *fleet.Live, s *discovery.Scraper)) {
	synctest.Test(t, func(t *testing.T) {
		p, live := newPages(), fleet.NewLive(fleet.NewView(activeWorkers(n)))
		p.takes = takes
		s := discovery.NewScraper(live, discovery.ScrapeConfig{Path: "/metrics", Interval: time.Second, Transport: p})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		body(p, live, s)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestScraperReadsEveryActiveWorkerOnceAnInterval(t *testing.T) {
	scraping(t, 3, 0, func(p *pages, live *fleet.Live, s *discovery.Scraper) {
		p.set("10.0.0.1:80", 4)
		time.Sleep(10*time.Second + 500*time.Millisecond)
		synctest.Wait()
		for i := 1; i <= 3; i++ {
			if n := len(p.asked(fmt.Sprintf("10.0.0.%d:80", i))); n < 10 || n > 11 {
				t.Errorf("worker %d was asked %d times in 10.5 s, want 10 or 11", i, n)
			}
		}
		got, ok := s.Figures(fleet.OnRank(1, 0))
		if age := time.Since(got.At); !ok || got.Running != 4 || age < 0 || age > time.Second {
			t.Errorf("rank 0 of worker 1: %+v, %v", got, ok)
		}
		if got, _ := s.Figures(fleet.WorkerOnly(1)); got.Running != 104 {
			t.Errorf("worker 1 as a whole runs %d requests, want 104", got.Running)
		}
		if got, ok := s.Figures(fleet.OnRank(1, 2)); ok {
			t.Errorf("a rank that said nothing has figures: %+v", got)
		}
		if got, ok := s.Figures(fleet.OnRank(2, 0)); ok {
			t.Errorf("a worker without load figures has some: %+v", got)
		}
	})
}

func TestFiguresThatCannotBeRenewedStayWithTheirAge(t *testing.T) {
	scraping(t, 1, 0, func(p *pages, live *fleet.Live, s *discovery.Scraper) {
		p.set("10.0.0.1:80", 4)
		time.Sleep(2 * time.Second)
		p.forget("10.0.0.1:80")
		time.Sleep(5 * time.Second)
		got, ok := s.Figures(fleet.OnRank(1, 0))
		if age := time.Since(got.At); !ok || got.Running != 4 || age < 5*time.Second || age > 6*time.Second {
			t.Errorf("got %+v (%v old), %v", got, age, ok)
		}
	})
}

func TestWorkersThatLeaveAreNotReadAnyMore(t *testing.T) {
	scraping(t, 2, 0, func(p *pages, live *fleet.Live, s *discovery.Scraper) {
		p.set("10.0.0.1:80", 4)
		p.set("10.0.0.2:80", 5)
		time.Sleep(2 * time.Second)
		live.Publish(fleet.NewView(activeWorkers(1)))
		time.Sleep(time.Second)
		before := len(p.asked("10.0.0.2:80"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if after := len(p.asked("10.0.0.2:80")); after != before {
			t.Errorf("the worker that left was asked %d more times", after-before)
		}
		if got, ok := s.Figures(fleet.OnRank(2, 0)); ok {
			t.Errorf("the worker that left still has figures: %+v", got)
		}
		drained := activeWorkers(1)
		drained[0].State = fleet.Draining
		live.Publish(fleet.NewView(drained))
		time.Sleep(time.Second)
		before = len(p.asked("10.0.0.1:80"))
		live.Publish(fleet.NewView(activeWorkers(1)))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if after := len(p.asked("10.0.0.1:80")); after-before < 1 || after-before > 3 {
			t.Errorf("back from draining it was asked %d times in 2 s, want about 2", after-before)
		}
	})
}

// Else those that come and go for ever and never tell their load would all be
// remembered.
func TestAWorkerThatLeftIsWarnedOfAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := fleet.NewLive(fleet.NewView(activeWorkers(1)))
		var log bytes.Buffer
		s := discovery.NewScraper(live, discovery.ScrapeConfig{
			Path: "/metrics", Interval: time.Second, Transport: newPages(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(5 * time.Second)
		live.Publish(fleet.NewView(nil))
		time.Sleep(5 * time.Second)
		live.Publish(fleet.NewView(activeWorkers(1)))
		time.Sleep(5 * time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := strings.Count(log.String(), "do not tell its load"); n != 2 {
			t.Errorf("warned %d times, want once for each time that it is there:\n%s", n, &log)
		}
	})
}

func TestSlowWorkersAreAskedOneAtATime(t *testing.T) {
	scraping(t, 200, 900*time.Millisecond, func(p *pages, live *fleet.Live, s *discovery.Scraper) {
		for range 20 { // views change all the time
			time.Sleep(500 * time.Millisecond)
			live.Publish(fleet.NewView(activeWorkers(200)))
		}
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mu.most > 64 {
			t.Errorf("%d readings at once, want at most 64", p.mu.most)
		}
		for i := 1; i <= 200; i++ {
			asked := p.mu.asked[fmt.Sprintf("10.0.0.%d:80", i)]
			for j := 1; j < len(asked); j++ {
				if gap := asked[j].Sub(asked[j-1]); gap < 900*time.Millisecond {
					t.Fatalf("worker %d was asked again after %v, while the first answer was on its way", i, gap)
				}
			}
		}
	})
}

func TestASilentWorkerIsGivenUpAfterASecond(t *testing.T) {
	scraping(t, 1, time.Hour, func(p *pages, live *fleet.Live, s *discovery.Scraper) {
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(p.asked("10.0.0.1:80")); n < 4 || n > 6 {
			t.Errorf("asked %d times in 10 s, want about 5: 1 s for an answer, 1 s of pause", n)
		}
	})
}

// Whoever wants to know is told before each reading and, when its figures are
// there or will not come, after it.
func TestScraperTellsWhenItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, live := newPages(), fleet.NewLive(fleet.NewView(activeWorkers(1)))
		p.takes = 300 * time.Millisecond
		var s *discovery.Scraper
		var told []string
		tell := func(what string) func(fleet.WorkerID) {
			return func(id fleet.WorkerID) {
				f, _ := s.Figures(fleet.OnRank(id, 0))
				told = append(told, fmt.Sprintf("%s %d: %d", what, id, f.Running))
			}
		}
		s = discovery.NewScraper(live, discovery.ScrapeConfig{Path: "/metrics", Interval: time.Second, Transport: p, Asking: tell("asking"), Said: tell("said")})
		p.set("10.0.0.1:80", 4)
		ctx, stop := context.WithTimeout(t.Context(), 2900*time.Millisecond)
		defer stop()
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		want := []string{"asking 1: 0", "said 1: 4", "asking 1: 4", "said 1: 4"}
		if len(told) < len(want) || !slices.Equal(told[:len(want)], want) {
			t.Errorf("told %q, want %q first", told, want)
		}
	})
}
