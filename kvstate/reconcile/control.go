package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"mooring/kvstate"
)

const (
	maxStatusBytes   = 64 << 10
	maxRecoveryBytes = 512 << 20 // some 800,000 blocks of one event each
	maxStatusCalls   = 256       // at once
	maxRecoveries    = 2         // at once, so that they fit into memory
)

// control asks state agents over HTTP: a query is POSTed as JSON, and the answer
// comes back as JSON with status 200. It goes to the given URL and nowhere else:
// redirects are not followed, and proxies of the environment not used.
type control struct {
	client http.Client
	status chan struct{} // one for each status call under way
	heavy  chan struct{} // one for each recovery under way
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
		status: make(chan struct{}, maxStatusCalls),
		heavy:  make(chan struct{}, maxRecoveries),
	}
}

// close gives kept connections back.
func (c *control) close() { c.client.CloseIdleConnections() }

// ask makes a call, within its timeout, which begins when it is its turn.
func (c *control) ask(ctx context.Context, q *call) (kvstate.QueryResponse, error) {
	turns, most := c.heavy, int64(maxRecoveryBytes)
	if q.question == askStatus {
		turns, most = c.status, maxStatusBytes
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return kvstate.QueryResponse{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	data, err := c.post(ctx, q.target.Transport.Address, &q.request, most)
	if err != nil {
		return kvstate.QueryResponse{}, err
	}
	var answer kvstate.QueryResponse
	if err := json.Unmarshal(data, &answer); err != nil {
		// Asking the same again would not help.
		return kvstate.QueryResponse{}, agentError{"decode the answer: " + err.Error()}
	}
	return answer, nil
}

func (c *control) post(ctx context.Context, url string, request *kvstate.QueryRequest, most int64) ([]byte, error) {
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
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		return nil, fmt.Errorf("%s: %s", answer.Status, printable(string(text)))
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("the answer is larger than %d bytes", most)
	}
	return data, nil
}
