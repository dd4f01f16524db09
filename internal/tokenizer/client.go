package tokenizer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says what a Client may cost. The zero Config is valid.
type Config struct {
	// Deadline bounds one call, waiting for its turn included. 0 means 50 ms.
	Deadline time.Duration
	// MaxCalls bounds the calls that run at once. 0 means 64.
	MaxCalls int
	// MaxAnswerBytes bounds one answer. 0 means 8 MiB.
	MaxAnswerBytes int64
	// CacheTokens bounds the answers that are kept, in tokens of four bytes. 0
	// means 4 Mi, which is 16 MiB.
	CacheTokens int
	// Transport makes the calls. Nil means one of its own.
	Transport http.RoundTripper
	// Logger is told of endpoints that are left alone, and that answer again. Nil
	// discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil: they are not registered.
	Registerer prometheus.Registerer
}

// Client asks for tokens. Make it with New; all methods are safe for concurrent
// use. It starts no goroutine that outlives a call but those of its idle
// connections, which Close ends.
type Client struct {
	cfg       Config
	transport http.RoundTripper
	turns     chan struct{} // holds one for each call that runs
	circuits  *breakers
	answers   *cache
	metrics   *metrics
}

// New returns a Client.
func New(cfg Config) *Client {
	setDefault(&cfg.Deadline, 50*time.Millisecond)
	setDefault(&cfg.MaxCalls, 64)
	setDefault(&cfg.MaxAnswerBytes, 8<<20)
	setDefault(&cfg.CacheTokens, 4<<20)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		cfg: cfg, transport: cfg.Transport, turns: make(chan struct{}, cfg.MaxCalls),
		circuits: newBreakers(), answers: newCache(cfg.CacheTokens), metrics: newMetrics(cfg.Registerer),
	}
	if c.transport == nil {
		c.transport = newTransport(cfg.MaxCalls)
	}
	return c
}

// LeftAlone returns the endpoints that failed too often lately and are not
// asked for a while, each with how it failed, ordered.
func (c *Client) LeftAlone() []string { return c.circuits.open(time.Now()) }

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// maxTrailer is how many bytes behind an answer are read.
const maxTrailer = 4096

// newTransport makes connections that fail early and are kept.
func newTransport(calls int) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:    time.Second,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    calls,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// Close ends idle connections. Calls that run are not disturbed.
func (c *Client) Close() {
	if t, ok := c.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// Tokens returns the tokens of what body asks for, a request of /tokenize. The
// first of the endpoints that is not known to fail is called, and no other;
// endpoints are whole URLs. scope tells apart what the same body may mean to
// others: the partition. The tokens are shared and must not be changed; body is
// not kept. It returns within the deadline, and soon after ctx ended.
func (c *Client) Tokens(ctx context.Context, endpoints iter.Seq[string], scope string, body []byte) ([]uint32, Outcome) {
	began := time.Now()
	tokens, outcome := c.tokens(ctx, endpoints, scope, body, began)
	c.metrics.observe(outcome, time.Since(began))
	return tokens, outcome
}

func (c *Client) tokens(ctx context.Context, endpoints iter.Seq[string], scope string, body []byte, now time.Time) ([]uint32, Outcome) {
	key := keyOf(scope, body)
	if tokens, ok := c.answers.find(key); ok {
		return tokens, Cached
	}
	within, cancel := context.WithDeadline(ctx, now.Add(c.cfg.Deadline))
	defer cancel()
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-within.Done():
		return nil, expired(ctx, Busy)
	}
	endpoint, outcome := c.enter(endpoints)
	if outcome != OK {
		return nil, outcome
	}
	tokens, outcome := c.call(within, endpoint, body)
	if outcome == Timeout {
		outcome = expired(ctx, Timeout)
	}
	switch opened, closed := c.circuits.leave(endpoint, outcome, time.Now()); {
	case opened:
		c.cfg.Logger.Warn("a tokenizer does not answer; it is left alone for a while", "endpoint", endpoint, "outcome", outcome.String())
	case closed:
		c.cfg.Logger.Info("a tokenizer answers again", "endpoint", endpoint)
	}
	if outcome == OK {
		c.answers.add(key, tokens)
	}
	return tokens, outcome
}

// expired tells a deadline of ours from an asker who has left.
func expired(ctx context.Context, ours Outcome) Outcome {
	if ctx.Err() != nil {
		return Left
	}
	return ours
}

// enter returns the first endpoint whose circuit lets a call through.
func (c *Client) enter(endpoints iter.Seq[string]) (string, Outcome) {
	outcome, now := NoEndpoint, time.Now()
	for endpoint := range endpoints {
		if c.circuits.enter(endpoint, now) {
			return endpoint, OK
		}
		outcome = Open
	}
	return "", outcome
}

// call asks one endpoint.
func (c *Client) call(ctx context.Context, endpoint string, body []byte) ([]uint32, Outcome) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, Unreachable
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "mooring")
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, broken(ctx, Unreachable)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return nil, Refused
	default:
		return nil, Failed
	}
	limited := &io.LimitedReader{R: resp.Body, N: c.cfg.MaxAnswerBytes}
	tokens, err := readAnswer(limited)
	switch {
	case err == nil:
		// A connection is used again only if its answer was read to the end.
		_, _ = io.CopyN(io.Discard, limited, maxTrailer)
		return tokens, OK
	case limited.N <= 0:
		return nil, TooLarge
	case errors.Is(err, errMalformed):
		return nil, broken(ctx, Malformed)
	default:
		return nil, broken(ctx, Unreachable)
	}
}

// broken says why a call broke off: its time may have been over.
func broken(ctx context.Context, otherwise Outcome) Outcome {
	if ctx.Err() != nil {
		return Timeout
	}
	return otherwise
}
