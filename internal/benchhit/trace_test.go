package benchhit

import (
	"math"
	"math/rand/v2"
	"time"
)

// conversation is what one client is going to say and to be answered.
type conversation struct {
	id     int
	starts time.Duration // since the beginning of the trace
	prefix []uint32      // the system prompt and the document
	turns  []turn
}

// turn is one question and its reply.
type turn struct {
	question, reply []uint32
	pause           time.Duration // from the reply to the next question
}

// traceConfig says how long a trace is and how busy it makes the fleet.
type traceConfig struct {
	seed          uint64
	conversations int
	perSecond     float64 // new conversations, on average
}

const (
	systemPrompts    = 24
	documents        = 150
	documentShare    = 0.4
	meanTurns        = 5
	maxTurns         = 24
	meanPause        = 15 * time.Second
	systemExponent   = 1.1
	documentExponent = 1.05
)

// generator draws all that is random from one seed.
type generator struct {
	rng  *rand.Rand
	next uint32 // the first token id that no text uses yet
}

// newTrace makes the conversations, ordered by when they start.
func newTrace(cfg traceConfig) []*conversation {
	g := &generator{rng: rand.New(rand.NewPCG(cfg.seed, 0)), next: 1}
	systems := g.texts(systemPrompts, 600, 0.8, 100, 4000)
	library := g.texts(documents, 2500, 0.9, 300, 16000)
	pickSystem, pickDocument := g.zipf(systemPrompts, systemExponent), g.zipf(documents, documentExponent)
	trace := make([]*conversation, cfg.conversations)
	var at time.Duration
	for i := range trace {
		at += g.exponential(time.Duration(float64(time.Second) / cfg.perSecond))
		c := &conversation{id: i, starts: at, prefix: systems[pickSystem()]}
		if g.rng.Float64() < documentShare {
			document := library[pickDocument()]
			c.prefix = append(append(make([]uint32, 0, len(c.prefix)+len(document)), c.prefix...), document...)
		}
		for {
			c.turns = append(c.turns, turn{
				question: g.text(g.logNormal(60, 1, 5, 1500)),
				reply:    g.text(g.logNormal(180, 0.7, 5, 1200)),
				pause:    g.exponential(meanPause),
			})
			if len(c.turns) == maxTurns || g.rng.Float64() < 1.0/meanTurns {
				break
			}
		}
		trace[i] = c
	}
	return trace
}

// text returns n tokens that no other text begins with.
func (g *generator) text(n int) []uint32 {
	t := make([]uint32, n)
	for i := range t {
		t[i] = g.next
		g.next++
	}
	return t
}

func (g *generator) texts(n int, median, sigma float64, shortest, longest int) [][]uint32 {
	all := make([][]uint32, n)
	for i := range all {
		all[i] = g.text(g.logNormal(median, sigma, shortest, longest))
	}
	return all
}

func (g *generator) logNormal(median, sigma float64, shortest, longest int) int {
	n := int(median * math.Exp(sigma*g.rng.NormFloat64()))
	return min(max(n, shortest), longest)
}

func (g *generator) exponential(mean time.Duration) time.Duration {
	return time.Duration(g.rng.ExpFloat64() * float64(mean))
}

// zipf returns a source of numbers below n, of which i has weight 1/(i+1)^exponent.
func (g *generator) zipf(n int, exponent float64) func() int {
	sums := make([]float64, n)
	total := 0.0
	for i := range sums {
		total += math.Pow(float64(i+1), -exponent)
		sums[i] = total
	}
	return func() int {
		x := g.rng.Float64() * total
		for i, s := range sums {
			if x < s {
				return i
			}
		}
		return n - 1
	}
}
