package replication

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Who mixes messages of both kinds fills no log; a change for good is told.
func TestDistrustIsToldOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	vs := voices{logger: slog.New(slog.NewTextHandler(&log, nil)), by: make(map[string]*voice)}
	now := time.Now()
	for range 600 {
		vs.hear(now, "e", NotOurKey)
		vs.hear(now, "e", Trusted)
		now = now.Add(100 * time.Millisecond)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines in a minute, want 1:\n%s", n, &log)
	}
	log.Reset()
	for range 600 {
		vs.hear(now, "e", Trusted)
		now = now.Add(time.Second)
	}
	if !strings.Contains(log.String(), "taken now") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("after the end of it:\n%s", &log)
	}
}

func TestVoicesAreBounded(t *testing.T) {
	vs := voices{logger: slog.New(slog.DiscardHandler), by: make(map[string]*voice)}
	now := time.Now()
	for i := range 2 * maxPeers {
		vs.hear(now.Add(time.Duration(i)), fmt.Sprint("e", i), Trusted)
	}
	if len(vs.list()) != maxPeers || vs.by["e0"] != nil || vs.by[fmt.Sprint("e", 2*maxPeers-1)] == nil {
		t.Errorf("%d voices; want the last %d", len(vs.list()), maxPeers)
	}
}
