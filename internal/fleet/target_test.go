package fleet_test

import (
	"testing"

	"mooring/internal/fleet"
)

func TestWorkerOnlyIsNotRankZero(t *testing.T) {
	if fleet.WorkerOnly(5) == fleet.OnRank(5, 0) {
		t.Error("they are equal")
	}
	if a, b := fleet.WorkerOnly(5).String(), fleet.OnRank(5, 0).String(); a != "5" || b != "5:0" {
		t.Errorf("got %q and %q", a, b)
	}
	if fleet.WorkerOnly(5).Compare(fleet.OnRank(5, 0)) >= 0 {
		t.Error("want worker-only before its ranks")
	}
}

func TestWorkerIDKeepsAll64Bits(t *testing.T) {
	const text = "18446744073709551615"
	id, err := fleet.ParseWorkerID(text)
	if err != nil || id.String() != text {
		t.Errorf("got %v, %v", id, err)
	}
	for _, bad := range []string{"", "0", "-1", "1.5", "18446744073709551616", "0x10", " 1"} {
		if _, err := fleet.ParseWorkerID(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestDerivedWorkerIDIsAlwaysTheSame(t *testing.T) {
	// Replicas of different builds must agree: the value may never change.
	if got, want := fleet.DeriveWorkerID("10.0.0.7:8000").String(), "5244519052077252674"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if fleet.DeriveWorkerID("a") == fleet.DeriveWorkerID("b") {
		t.Error("two identities share an id")
	}
}
