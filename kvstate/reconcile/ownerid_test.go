package reconcile

import (
	"testing"

	"mooring/kvstate"
)

func TestRankEndpoints(t *testing.T) {
	tests := []struct {
		endpoint string
		rank     uint32
		want     string
		wrong    bool
	}{
		{"tcp://10.0.0.7:5557", 0, "tcp://10.0.0.7:5557", false},
		{"tcp://10.0.0.7:5557", 3, "tcp://10.0.0.7:5560", false},
		{"tcp://[fd00::1]:5557", 1, "tcp://[fd00::1]:5558", false},
		{"", 3, "", false},
		{"tcp://h:65535", 1, "", true},
		{"tcp://h", 1, "", true},
		{"tcp://h:x", 1, "", true},
	}
	for _, tt := range tests {
		got, err := rankEndpoint(tt.endpoint, tt.rank)
		if got != tt.want || err != nil != tt.wrong {
			t.Errorf("%s rank %d: %q, %v", tt.endpoint, tt.rank, got, err)
		}
	}
}

func TestConfiguredOwnersAreStable(t *testing.T) {
	w := testWorker(7)
	// Replicas of different builds must agree, and operators look keys up.
	if got, want := configuredOwner(&w, 3, 16).Key().String(), "60161c4ae04ac8b820ac7d400c3f5e63"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	other := testWorker(8)
	seen := map[kvstate.CacheOwnerID]string{}
	for name, id := range map[string]kvstate.CacheOwnerID{
		"rank 0": configuredOwner(&w, 0, 16), "rank 1": configuredOwner(&w, 1, 16), "another size": configuredOwner(&w, 0, 32),
		"another worker": configuredOwner(&other, 0, 16),
	} {
		if before, taken := seen[id]; taken {
			t.Errorf("%s and %s are one owner", name, before)
		}
		seen[id] = name
	}
}
