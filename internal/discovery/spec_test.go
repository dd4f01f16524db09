package discovery

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"mooring/internal/fleet"
)

func TestAnAddressHasOneSpelling(t *testing.T) {
	tests := []struct{ address, want string }{
		{"10.0.0.7:8000", "10.0.0.7:8000"},
		{"[2001:DB8:0:0::7]:8000", "[2001:db8::7]:8000"},
		{"[::ffff:10.0.0.7]:8000", "10.0.0.7:8000"},
		{"[::1]:1", "[::1]:1"},
	}
	for _, tt := range tests {
		p, err := parsePlace(tt.address)
		if err != nil || p.isName() {
			t.Errorf("parsePlace(%q) = %+v, %v", tt.address, p, err)
			continue
		}
		if got := p.at(p.ip); got != tt.want {
			t.Errorf("%q is at %q, want %q", tt.address, got, tt.want)
		}
	}
	p, err := parsePlace("worker-0.workers.example:8000")
	if err != nil || !p.isName() || p.at(netip.MustParseAddr("::ffff:10.0.0.1")) != "10.0.0.1:8000" {
		t.Errorf("a name: %+v, %v", p, err)
	}
}

func TestWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{
		"", ":8000", "10.0.0.7", "10.0.0.7:", "10.0.0.7:0", "10.0.0.7:65536", "10.0.0.7:http", "10.0.0.7:-1", "fd00::10:8000",
		"[fe80::1%eth0]:8000", "0.0.0.0:8000", "[::]:8000", "224.0.0.1:8000", "[::ffff:0.0.0.0]:8000",
	} {
		if p, err := parsePlace(address); err == nil {
			t.Errorf("parsePlace(%q) = %+v", address, p)
		}
	}
}

func FuzzParsePlace(f *testing.F) {
	for _, s := range []string{"10.0.0.7:8000", "[::ffff:10.0.0.7]:8000", "name:80", "[fe80::1%a]:1", ":1", "[]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		p, err := parsePlace(address)
		if err != nil {
			return
		}
		if p.isName() {
			if p.host == "" || p.port == 0 {
				t.Errorf("%q is a name without host or port", address)
			}
			return
		}
		at := p.at(p.ip)
		again, err := parsePlace(at)
		if err != nil || again != p {
			t.Errorf("%q is at %q, and that is %+v, %v", address, at, again, err)
		}
		if _, _, err := net.SplitHostPort(at); err != nil {
			t.Errorf("%q is at %q", address, at)
		}
	})
}

func TestAListingHasItsDefaults(t *testing.T) {
	l, err := newListing(Spec{Address: "name:80"})
	if err != nil {
		t.Fatal(err)
	}
	if l.ID != fleet.DeriveWorkerID("name:80") || len(l.Models) != 1 || l.Models[0] != fleet.DefaultName || l.Group != fleet.DefaultName || l.Ranks != 1 {
		t.Errorf("got %+v", l)
	}
}

func TestListingsDifferInEveryField(t *testing.T) {
	base := Spec{
		Address: "10.0.0.7:8000", Models: []string{"m"}, Adapters: []string{"a"}, Group: "g", Ranks: 2, ID: 7,
		KVEvents: "tcp://10.0.0.7:1", KVReplay: "tcp://10.0.0.7:2", BlockSize: 16,
	}
	listed := func(change func(s *Spec)) listing {
		s := base
		change(&s)
		l, err := newListing(s)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	same := listed(func(*Spec) {})
	if !same.equal(listed(func(*Spec) {})) {
		t.Error("a listing differs from itself")
	}
	for field, change := range map[string]func(s *Spec){
		"Address":   func(s *Spec) { s.Address = "10.0.0.8:8000" },
		"Models":    func(s *Spec) { s.Models = []string{"m", "n"} },
		"Adapters":  func(s *Spec) { s.Adapters = nil },
		"Group":     func(s *Spec) { s.Group = "h" },
		"Ranks":     func(s *Spec) { s.Ranks = 3 },
		"ID":        func(s *Spec) { s.ID = 8 },
		"Drain":     func(s *Spec) { s.Drain = true },
		"KVEvents":  func(s *Spec) { s.KVEvents = "" },
		"KVReplay":  func(s *Spec) { s.KVReplay = "" },
		"BlockSize": func(s *Spec) { s.BlockSize = 32 },
	} {
		if same.equal(listed(change)) {
			t.Errorf("listings that differ in %s are equal", field)
		}
	}
}

func TestSharesAreSpreadAndStable(t *testing.T) {
	const span = 1000 * time.Hour
	buckets := make(map[time.Duration]int)
	for id := fleet.WorkerID(1); id <= 1000; id++ {
		got := share(id, span)
		if got < 0 || got >= span || got != share(id, span) {
			t.Fatalf("worker %v has the share %v of %v", id, got, span)
		}
		buckets[got/(span/10)]++
	}
	for bucket, n := range buckets {
		if n > 150 {
			t.Errorf("%d of 1000 workers are in tenth %d", n, bucket)
		}
	}
	if got := share(7, 0); got != 0 {
		t.Errorf("the share of nothing is %v", got)
	}
}
