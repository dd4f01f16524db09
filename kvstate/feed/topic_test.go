package feed

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mooring/kvstate/blockhash"
)

// addresses are those of a fleet's workers, from worker 1 on.
type addresses []string

func (all addresses) of(worker int) func() netip.AddrPort {
	return func() netip.AddrPort {
		at, _ := netip.ParseAddrPort(all[worker-1])
		return at
	}
}

func (all addresses) besides(worker int) func(netip.AddrPort) bool {
	return func(at netip.AddrPort) bool {
		for i, one := range all {
			other, _ := netip.ParseAddrPort(one)
			if i != worker-1 && other.Addr() == at.Addr() && (at.Port() == 0 || other.Port() == at.Port()) {
				return true
			}
		}
		return false
	}
}

// says sends a batch under a topic.
func (e *engine) under(topic string, seq uint64, batch string) {
	e.send([]byte(topic), binary.BigEndian.AppendUint64(nil, seq), pack(e.rig.t, batch))
}

// Which workers are credited with what comes under a topic, if each of their feeds
// hears it first on its connection (B85). The others drop and count it.
func TestTopicsNameWorkers(t *testing.T) {
	fleet := addresses{"10.0.0.5:8000", "10.0.0.6:8000", "[fd00::5]:8000", "10.0.0.6:8001", "127.0.0.1:8000", "127.0.0.1:8001", ""}
	const everybody = "1234567"
	for topic, want := range map[string]string{
		"kv@10.0.0.5@m":                         "1",
		"kv@10.0.0.5:8000@m":                    "1",
		"kv@10.0.0.5:8000@org/m@v2":             "1",
		"kv@10.0.0.5:9999@m":                    "1",  // may be the port of a rank
		"kv@10.0.0.6@m":                         "24", // either
		"kv@10.0.0.6:8001@m":                    "4",
		"kv@10.0.0.7:8000@m":                    "3567", // nobody's: through a way that is not known here
		"kv@::ffff:10.0.0.6@m":                  "24",
		"kv@[fd00::5]:8000@m":                   "3",
		"kv@[fd00::5]@m":                        "3",
		"kv@fd00::5@m":                          "3",
		"kv@fd00::5:8000@m":                     "3", // pods write it so
		"kv@fd00::5%eth0@m":                     "3",
		"kv@[fd00::6]:8000@m":                   "124567",
		"kv@127.0.0.1:8001@m":                   "123467", // of 5 and 6 the one with that port
		"kv@0.0.0.0:8000@m":                     everybody,
		"kv@[::]:8000@m":                        everybody,
		"kv@pod-7@m":                            everybody,
		"kv@10.0.0.5":                           everybody,
		"kv@10.0.0@m":                           everybody,
		"kv@@m":                                 everybody,
		"kv@[]@m":                               everybody,
		"kv@:8000@m":                            everybody,
		"kv@" + strings.Repeat("1", 100) + "@m": everybody,
		"kv-events":                             everybody,
		"":                                      everybody,
	} {
		t.Run(topic, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.stop()
				got := ""
				for worker := 1; worker <= len(fleet); worker++ {
					e := r.engine(fmt.Sprint(worker), uint64(worker), 0, false, 2)
					e.feed.cfg.Address, e.feed.cfg.Neighbour = fleet.of(worker), fleet.besides(worker)
					e.connect()
					e.under(topic, 0, ofTwo)
					blocks, d := r.index.Blocks(e.feed.owners[0]), e.feed.Details()
					switch refused := d.Dropped[PublisherUnknown]; {
					case blocks == 2 && refused == 0 && d.PublisherError == "":
						got += fmt.Sprint(worker)
					case blocks == 0 && refused == 1 && d.PublisherError != "":
					default:
						t.Errorf("worker %d: %d blocks, %d refused, %q", worker, blocks, refused, d.PublisherError)
					}
				}
				if got != want {
					t.Errorf("credited: %s, want %s", got, want)
				}
			})
		})
	}
}

// A feed that finds that it follows another worker's engine forgets all it has of it,
// and starts over with the right one.
func TestStrangersLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		fleet := addresses{"10.0.0.5:8000", "10.0.0.6:8000"}
		e := r.engine("W1", 1, 0, true, 2)
		e.feed.cfg.Address, e.feed.cfg.Neighbour = fleet.of(1), fleet.besides(1)
		e.log = []numbered{{0, pack(t, ofTwo)}}
		e.connect()
		if e.sleep(); r.index.Len() != 2 {
			t.Fatalf("%d blocks by replay", r.index.Len())
		}
		e.under("kv@10.0.0.6:8000@m", 1, ofTwo)
		wants := func(when string, blocks int, problem string) {
			t.Helper()
			e.sleep()
			if d := e.feed.Details(); r.index.Len() != blocks || d.PublisherError != problem || (problem != "") != d.Holed {
				t.Errorf("%s: %d blocks, holed %t, %q", when, r.index.Len(), d.Holed, d.PublisherError)
			}
		}
		const problem = "the topic names 10.0.0.6:8000, the worker is at 10.0.0.5:8000"
		wants("named", 0, problem)
		e.disconnect()
		e.connect() // the replay is of who was there before
		wants("connected anew", 0, problem)
		e.log = append(e.log, numbered{1, pack(t, `[0, [["BlockStored", [3], 2, [5,6], 2]]]`)})
		e.under("kv@10.0.0.5:8000@m", 1, `[0, [["BlockStored", [3], 2, [5,6], 2]]]`)
		wants("the right one", 3, "")
		if got := r.match([]uint32{1, 2, 3, 4, 5, 6}, blockhash.Seed("", "")); got != "1:0: device 3\n" {
			t.Errorf("found: %s", got)
		}
		fleet[0], fleet[1] = fleet[1], fleet[0] // the worker's name resolves to another address
		e.under("kv@10.0.0.5:8000@m", 2, `[0, [["BlockStored", [4], 3, [7,8], 2]]]`)
		wants("moved", 0, "the topic names 10.0.0.5:8000, the worker is at 10.0.0.6:8000")
	})
}

// sleep lets a replay begin and end.
func (e *engine) sleep() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func FuzzTopic(f *testing.F) {
	for _, topic := range []string{"kv@10.0.0.5@m", "kv@[fd00::5]:8000@m@v2", "kv@fd00::5:8000@", "kv@[::1%x]@", "kv@@", ""} {
		f.Add([]byte(topic))
	}
	f.Fuzz(func(t *testing.T, topic []byte) {
		host, named := publishersOf(topic)
		for _, at := range named {
			if !at.Addr().IsValid() || at.Addr().Is4In6() || at.Addr().Zone() != "" || !strings.HasPrefix(string(topic), "kv@"+host+"@") {
				t.Errorf("%q: %s of %q", topic, at, host)
			}
			if claimOf(at, plain(at), func(netip.AddrPort) bool { return true }) != ours {
				t.Errorf("%q: %s is not itself", topic, at)
			}
		}
	})
}
