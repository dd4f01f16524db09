package main

import (
	"testing"
	"time"

	"mooring/internal/config"
)

// A tokenizer's URL means vLLM's path unless it has one.
func TestTokenizerURL(t *testing.T) {
	for configured, want := range map[string]string{
		"":                         "",
		"http://tokens:8000":       "http://tokens:8000/tokenize",
		"http://tokens:8000/":      "http://tokens:8000/tokenize",
		"http://tokens:8000/other": "http://tokens:8000/other",
		"http://[::1]:8000?a=b":    "http://[::1]:8000/tokenize?a=b",
	} {
		if got := tokenizerURL(configured); got != want {
			t.Errorf("%q: %q, want %q", configured, got, want)
		}
	}
}

// What replication accepts limits how far the sequences follow those of others.
func TestSessionsKnowTheClockSkew(t *testing.T) {
	cfg := &config.Config{}
	cfg.Replication.MaxClockSkew = 10 * time.Minute
	if got := affinityConfig(cfg, 1, nil, nil).MaxClockSkew; got != 10*time.Minute {
		t.Errorf("the sessions take a skew of %v, want 10m", got)
	}
}
