package feed

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"mooring/internal/zmqsock"
	"mooring/kvstate/blockhash"
)

// TestScripts runs testdata/feed, each file with an index of its own. Commands:
//
//	engine W worker=1 [rank=0] [replay] [block-size=4] [detached]
//	publish W [lost]      a batch as JSON; lost: only a replay has it
//	dropped W [n=1]       the queue had no room for n batches
//	raw W                 frames in hex, one a line; "-" is empty
//	blip W, restart W     the connection is lost and comes back; of another process
//	down W, up W          the connection is lost; comes back
//	replay W [keep=N] [cut=N] [lose=N] [silent] [speaks]   how replays go
//	sleep 10s             time passes
//	match 1 2 3 [adapter=a] [salt=s]    who has how much of a prompt
//
// All but match answer with the state of W.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/feed", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.stop()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd == "match" {
					return r.scriptMatch(d)
				}
				if d.Cmd == "sleep" {
					pause, err := time.ParseDuration(d.CmdArgs[0].Key)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(pause)
					synctest.Wait()
					return ""
				}
				name := d.CmdArgs[0].Key
				if d.Cmd == "engine" {
					r.scriptEngine(d, name)
				} else {
					r.engines[name].script(t, d)
				}
				// The pause before a replay, and between its tries.
				time.Sleep(time.Second)
				synctest.Wait()
				return r.engines[name].state()
			})
		})
	})
}

func (r *rig) scriptEngine(d *datadriven.TestData, name string) {
	var worker, rank, size int
	d.ScanArgs(r.t, "worker", &worker)
	d.MaybeScanArgs(r.t, "rank", &rank)
	d.MaybeScanArgs(r.t, "block-size", &size)
	if old := r.engines[name]; old != nil {
		old.stop()
	}
	e := r.engine(name, uint64(worker), uint32(rank), d.HasArg("replay"), size)
	if !d.HasArg("detached") {
		e.connect()
	}
}

func (e *engine) script(t *testing.T, d *datadriven.TestData) {
	switch d.Cmd {
	case "publish":
		e.publish(pack(t, d.Input), d.HasArg("lost"))
	case "dropped":
		n := 1
		d.MaybeScanArgs(t, "n", &n)
		e.messages <- zmqsock.Message{Dropped: uint64(n), Connection: e.connection}
		synctest.Wait()
	case "raw":
		var frames [][]byte
		for line := range strings.Lines(d.Input) {
			b, err := hex.DecodeString(strings.Trim(strings.TrimSpace(line), "-"))
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, b)
		}
		e.send(frames...)
	case "blip":
		e.disconnect()
		e.connect()
	case "restart":
		e.restart()
	case "down":
		e.disconnect()
	case "up":
		e.connect()
	case "replay":
		e.scriptReplay(t, d)
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
}

func (e *engine) scriptReplay(t *testing.T, d *datadriven.TestData) {
	d.MaybeScanArgs(t, "cut", &e.cut)
	var keep, lose uint64
	if d.MaybeScanArgs(t, "keep", &keep) {
		e.log = e.log[len(e.log)-int(keep):]
	}
	e.lose = map[uint64]bool{}
	if d.MaybeScanArgs(t, "lose", &lose) {
		e.lose[lose] = true
	}
	e.silent = d.HasArg("silent")
}

func (r *rig) scriptMatch(d *datadriven.TestData) string {
	var adapter, salt string
	d.MaybeScanArgs(r.t, "adapter", &adapter)
	d.MaybeScanArgs(r.t, "salt", &salt)
	var tokens []uint32
	for _, arg := range d.CmdArgs {
		if n, err := strconv.ParseUint(arg.Key, 10, 32); err == nil {
			tokens = append(tokens, uint32(n))
		} else if len(arg.Vals) == 0 {
			r.t.Fatal(fmt.Errorf("token %q", arg.Key))
		}
	}
	return r.match(tokens, blockhash.Seed(adapter, salt))
}
