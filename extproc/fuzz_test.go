package extproc

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"google.golang.org/grpc/status"

	"mooring/affinity"
)

// dice hands out the fuzzer's bytes; zeros when there are no more.
type dice struct{ bytes []byte }

func (d *dice) roll(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % n
}

func (d *dice) flip() bool { return d.roll(2) == 1 }

// FuzzStream drives whole streams against the model of Envoy: every mode, all
// legal orders of messages, clients that leave at any point, and messages that
// Envoy would never send.
func FuzzStream(f *testing.F) {
	// Without a fuzzer these are run: the same streams every time, enough of
	// them to meet every mode with every kind of request.
	random := rand.New(rand.NewPCG(1, 2))
	for range 700 {
		seed := make([]byte, 40)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 300 {
			return
		}
		synctest.Test(t, func(t *testing.T) { runStream(t, &dice{data}) })
	})
}

func runStream(t *testing.T, d *dice) {
	r := newRig(t, func(c *Config) {
		c.PullBody = true
		if d.flip() {
			c.End = Stream
		}
	})
	if d.flip() {
		r.withKVState() // the default group's bodies are wanted, though not needed
	}
	s := &envoysim{t: t, plan: rollPlan(d), pipe: r.open(), ends: r.server.cfg.End}
	s.mode = s.plan.request
	ended := s.play(d)
	synctest.Wait()
	if s.picked && r.server.cfg.End == AccessLog {
		if n := r.server.ledger.len(); n != 1 {
			s.failf("%d ends are awaited after the pick, want 1", n)
		}
		r.server.ledger.end(r.server.cfg.FirstLease, affinity.Completed, byAccessLog)
	}
	r.clean()
	if r.server.metrics != nil && ended != nil && strings.Contains(status.Convert(ended).Message(), "internal") {
		s.failf("a panic: %v", ended)
	}
}

// play runs the exchange to its end and returns the stream's status.
func (s *envoysim) play(d *dice) error {
	leaveAt, illegalAt, graceful := d.roll(40), 255, d.flip()
	if d.roll(4) == 1 {
		illegalAt = d.roll(12)
	}
	for n := 0; ; n++ {
		if n == leaveAt && leaveAt > 0 {
			return s.leave(graceful)
		}
		if n == illegalAt {
			return s.transgress(d)
		}
		if d.flip() {
			s.listen()
		}
		m := s.nextRequest()
		if m != nil && (!d.flip() || s.nextResponse() == nil) {
			s.send(m)
			s.request.sent++
		} else if m = s.nextResponse(); m != nil {
			s.send(m)
			s.response.sent++
		} else {
			s.listen()
			if s.immediate {
				if err := <-s.pipe.result; err != nil {
					s.failf("a refused stream ended with %v", err)
				}
				return nil
			}
			if s.nextRequest() == nil && s.nextResponse() == nil && !s.ended() {
				s.complete()
				return s.leave(graceful)
			}
		}
		if s.ended() {
			break
		}
	}
	s.listen()
	err := <-s.pipe.result
	if !s.immediate && !(err == nil && s.mayBeLeft()) {
		s.failf("the server ended the stream with %v", err)
	}
	return err
}

func (s *envoysim) ended() bool {
	select {
	case <-s.pipe.ctx.Done():
		return true
	default:
		return false
	}
}

// transgress sends what Envoy never would. The server may end the stream, but not
// with OK unless it has answered.
func (s *envoysim) transgress(d *dice) error {
	kind := []string{"nothing", "headers", "trailers", "body", "response-body", "response-trailers", "response-headers"}[d.roll(7)]
	for range 2 {
		select {
		case s.pipe.in <- message(nil, kind, nil):
		case <-s.pipe.ctx.Done():
		}
	}
	synctest.Wait()
	s.pipe.reset()
	err := <-s.pipe.result
	for _, r := range s.pipe.take() {
		s.picked = s.picked || r.GetImmediateResponse() == nil && r.GetDynamicMetadata() != nil
		s.immediate = s.immediate || r.GetImmediateResponse() != nil
	}
	if err == nil && !s.picked && !s.immediate {
		s.failf("the stream ended with OK before the pick")
	}
	return err
}

func rollPlan(d *dice) plan {
	p := plan{said: true}
	p.request = filterv3.ProcessingMode_BodySendMode(d.roll(5))
	p.answer = filterv3.ProcessingMode_BodySendMode(d.roll(5))
	p.headers = []string{":method=POST", "x-session-id=s"}
	model := "a"
	if d.flip() {
		p.headers = append(p.headers, "x-routing-group=two")
	}
	switch d.roll(8) {
	case 1:
		p.bodyless = true
	case 2:
		model = "unknown"
	case 3:
		p.trailers = true
	case 4:
		p.repeatEnd = true
	case 5:
		p.eager = true
	case 6:
		p.responseTrail = true
	}
	p.pieces = rollPieces(d, model)
	for range d.roll(4) {
		p.responsePieces = append(p.responsePieces, []byte(strings.Repeat("r", d.roll(256)*400)))
	}
	return p
}

// rollPieces makes a JSON body and cuts it: into nothing, into single bytes, into
// pieces longer than a message of ours may be, over the limit.
func rollPieces(d *dice, model string) [][]byte {
	body := []byte(fmt.Sprintf(`{"model":%q,"pad":%q}`, model, strings.Repeat("p", d.roll(8)*d.roll(256)*200)))
	if d.roll(8) == 1 {
		body = body[:len(body)/2] // not JSON
	}
	var pieces [][]byte
	for n := d.roll(6); n > 0 && len(body) > 0; n-- {
		cut := min(d.roll(256)*d.roll(3)*300+d.roll(3), len(body))
		pieces = append(pieces, body[:cut])
		body = body[cut:]
	}
	return append(pieces, body)
}
