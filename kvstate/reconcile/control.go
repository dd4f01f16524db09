package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"mooring/kvstate"
)

const (
	maxStatusBytes   = 64 << 10
	maxRangeBytes    = 64 << 20
	maxRecoveryBytes = 512 << 20 // some 800,000 blocks of one event each

	maxStatusCalls = 256 // at once
	maxHostStatus  = 16  // at once, to one host
	maxRecoveries  = 32  // asked for at once, of one kind, and one of a host
	maxReads       = 2   // answers of one kind read at once, so that they fit into memory
)

// control asks state agents over HTTP: a query is POSTed as JSON, and the answer
// comes back as JSON with status 200. It goes to the given URL and nowhere else:
// redirects are not followed, and proxies of the environment not used.
type control struct {
	client               http.Client
	status, ranges, full lane
}

// lane is the calls of one kind. Those of one kind do not wait for another.
type lane struct {
	turns   *turns
	most    int64         // bytes of an answer
	reading chan struct{} // one for each answer being read; nil: they need no turn
}

func newControl() *control {
	return &control{
		client: http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: statusTimeout}).DialContext,
				DisableCompression:  true, // so that what is read is what is bounded
				MaxIdleConns:        maxStatusCalls,
				MaxIdleConnsPerHost: 2,
				IdleConnTimeout:     30 * time.Second,

				MaxResponseHeaderBytes: 16 << 10,
			},
		},
		status: lane{newTurns(maxStatusCalls, maxHostStatus), maxStatusBytes, nil},
		ranges: lane{newTurns(maxRecoveries, 1), maxRangeBytes, make(chan struct{}, maxReads)},
		full:   lane{newTurns(maxRecoveries, 1), maxRecoveryBytes, make(chan struct{}, maxReads)},
	}
}

func (c *control) lane(q question) *lane {
	switch q {
	case askStatus:
		return &c.status
	case askRange:
		return &c.ranges
	default:
		return &c.full
	}
}

// close gives kept connections back.
func (c *control) close() { c.client.CloseIdleConnections() }

// ask makes a call. Its timeout begins when it is its turn; a recovery has as long
// again to be read, from when it is the turn of that. An answer that has not begun
// needs no memory: agents that do not answer hold up none that do.
func (c *control) ask(ctx context.Context, q *call) (kvstate.QueryResponse, error) {
	lane, address := c.lane(q.question), q.target.Transport.Address
	done, err := lane.turns.take(ctx, hostOf(address))
	if err != nil {
		return kvstate.QueryResponse{}, err
	}
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := time.AfterFunc(q.timeout, func() { cancel(context.DeadlineExceeded) })
	defer clock.Stop()
	answer, err := c.post(ctx, address, &q.request)
	if err != nil {
		return kvstate.QueryResponse{}, err
	}
	defer answer.Body.Close()
	if lane.reading != nil {
		clock.Stop()
		select {
		case lane.reading <- struct{}{}:
			defer func() { <-lane.reading }()
		case <-ctx.Done():
			return kvstate.QueryResponse{}, context.Cause(ctx)
		}
		clock.Reset(q.timeout)
	}
	return readAnswer(answer.Body, lane.most)
}

// hostOf returns the host and port of a URL; what is none is a host of its own.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

// post returns an answer with status 200, whose body the caller closes.
func (c *control) post(ctx context.Context, url string, request *kvstate.QueryRequest) (*http.Response, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode the query: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		return nil, fmt.Errorf("%s: %s", answer.Status, printable(string(text)))
	}
	return answer, nil
}

// readAnswer reads an answer of so many bytes at most, without keeping its text.
// It ends when body does, at the latest at the call's timeout. Asking again would
// not help against an agentError.
func readAnswer(body io.Reader, most int64) (kvstate.QueryResponse, error) {
	text := &limited{from: body, left: most}
	answer, err := kvstate.DecodeAnswer(text)
	switch {
	case text.err != nil:
		return kvstate.QueryResponse{}, fmt.Errorf("read the answer: %w", text.err)
	case text.left < 0:
		return kvstate.QueryResponse{}, agentError{fmt.Sprintf("the answer is larger than %d bytes", most)}
	case err != nil:
		return kvstate.QueryResponse{}, agentError{"decode the answer: " + err.Error()}
	}
	return answer, nil
}

// limited reads no more than is left, and remembers what went wrong before.
type limited struct {
	from io.Reader
	left int64 // < 0: there was more
	err  error // of from, but for io.EOF
}

func (l *limited) Read(b []byte) (int, error) {
	n, err := l.from.Read(b)
	if l.left -= int64(n); l.left < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	if err != io.EOF {
		l.err = err
	}
	return n, err
}
