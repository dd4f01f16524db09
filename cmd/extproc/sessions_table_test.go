package main

import (
	"strings"
	"testing"
)

func TestLongSessionIDsAreShortenedInTheTable(t *testing.T) {
	long := strings.Repeat("é", 100) + "end of the id"
	got := shortened(long)
	if n := len([]rune(got)); n != 64 || !strings.HasPrefix(got, "ééé") || !strings.HasSuffix(got, "nd of the id") || !strings.Contains(got, "…") {
		t.Errorf("%d runes: %s", n, got)
	}
	if exact := strings.Repeat("a", 64); shortened(exact) != exact {
		t.Error("64 characters fit")
	}
}
