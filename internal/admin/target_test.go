package admin

import (
	"net/netip"
	"strings"
	"testing"

	"mooring/internal/fleet"
)

func TestParseTarget(t *testing.T) {
	address := netip.MustParseAddrPort
	tests := []struct {
		text string
		want targetName // zero: refused
	}{
		{"7", targetName{worker: 7}},
		{"18446744073709551615", targetName{worker: 1<<64 - 1}},
		{"7:0", targetName{worker: 7, ranked: true}},
		{"7:4294967295", targetName{worker: 7, rank: 1<<32 - 1, ranked: true}},
		{"10.0.0.7:8000", targetName{address: address("10.0.0.7:8000")}},
		{"10.0.0.7:8000:3", targetName{address: address("10.0.0.7:8000"), rank: 3, ranked: true}},
		{"[fd00::8]:8000", targetName{address: address("[fd00::8]:8000")}},
		{"[FD00:0::8]:8000:1", targetName{address: address("[fd00::8]:8000"), rank: 1, ranked: true}},
		{"[::ffff:10.0.0.7]:8000", targetName{address: address("10.0.0.7:8000")}},
		{text: ""},
		{text: "0"},
		{text: "-7"},
		{text: "+7"},
		{text: " 7"},
		{text: "7.0"},
		{text: "0x7"},
		{text: "18446744073709551616"},
		{text: "7:"},
		{text: "7:-1"},
		{text: "7:4294967296"},
		{text: "7:0:0"},
		{text: "10.0.0.7"},
		{text: "10.0.0.7:"},
		{text: "10.0.0.7:65536"},
		{text: "10.0.0.7:8000:"},
		{text: "10.0.0.7:8000:0:0"},
		{text: "10.0.0.256:8000"},
		{text: "fd00::8"},
		{text: "[fd00::8]"},
		{text: "[fd00::8]8000"},
		{text: "[fe80::1%eth0]:8000"},
		{text: "[10.0.0.7]:8000"},
		{text: "worker:8000"},
		{text: "vllm.default.svc:8000"},
		{text: strings.Repeat("9", 5000)},
	}
	for _, tt := range tests {
		got, err := parseTarget(tt.text)
		if got != tt.want || (err == nil) != (tt.want != targetName{}) {
			t.Errorf("parseTarget(%.40q) = %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
		if err != nil && len(err.Error()) > 250 {
			t.Errorf("parseTarget(%.40q): the message has %d bytes", tt.text, len(err.Error()))
		}
	}
}

// TestTargetAtSharedAddress: a vanished worker and its successor have one
// address, and the one that can be reached is meant.
func TestTargetAtSharedAddress(t *testing.T) {
	p := fleet.Partition{Model: "m", Group: "g"}
	old := fleet.Worker{ID: 1, Address: "10.0.0.7:8000", Models: []string{"m"}, Group: "g", Ranks: 1, State: fleet.Vanished}
	successor := old
	successor.ID, successor.State = 2, fleet.Active
	name, err := parseTarget("10.0.0.7:8000")
	if err != nil {
		t.Fatal(err)
	}
	if target, err := name.in(fleet.NewView([]fleet.Worker{old, successor}), p); target != fleet.WorkerOnly(2) || err != nil {
		t.Errorf("got %v, %v; want worker 2", target, err)
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"7", "7:1", "10.0.0.7:8000", "10.0.0.7:8000:1", "[fd00::8]:8000:2", "[::ffff:1.2.3.4]:1", "[]:1", "a:b:c", ":", "[", "1.", "١:١"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := parseTarget(text)
		if err != nil {
			if name != (targetName{}) {
				t.Fatalf("%q is refused and yet %+v", text, name)
			}
			return
		}
		if (name.worker != 0) == name.address.IsValid() {
			t.Fatalf("%q is not exactly one of id and address: %+v", text, name)
		}
		again, err := parseTarget(name.String())
		if err != nil || again != name {
			t.Fatalf("%q is %+v, written %q, read again %+v, %v", text, name, name, again, err)
		}
	})
}
