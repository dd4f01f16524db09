package main

import "testing"

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
