package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockedBuffer is a bytes.Buffer that a process may write while a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// http1 and http2 return clients that speak just that, in plain text.
func http1() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
}

func http2() *http.Client {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: p}, Timeout: time.Minute}
}

// message is one entry of an OpenAI chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// conversation is one session: what was said, and where each turn was served.
type conversation struct {
	id       string
	model    string
	messages []message
	workers  []string // X-Sim-Worker of each turn
	cached   []int    // cached prompt tokens of each turn
}

// reply is what a turn got.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// turn says one more thing and waits for the answer.
func (c *conversation) turn(client *http.Client, gateway, text string) (reply, error) {
	c.messages = append(c.messages, message{"user", text})
	body, _ := json.Marshal(map[string]any{"model": c.model, "messages": c.messages, "max_tokens": 24})
	r, err := post(client, gateway, "/v1/chat/completions", body, map[string]string{"X-Session-Id": c.id})
	if err != nil || r.status != http.StatusOK {
		c.messages = c.messages[:len(c.messages)-1]
		return r, err
	}
	var answer struct {
		Choices []struct{ Message message }
		Usage   struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal(r.body, &answer); err != nil || len(answer.Choices) != 1 {
		return r, fmt.Errorf("answer %q: %v", r.body, err)
	}
	c.messages = append(c.messages, answer.Choices[0].Message)
	c.workers = append(c.workers, r.header.Get("X-Sim-Worker"))
	c.cached = append(c.cached, answer.Usage.Details.Cached)
	return r, nil
}

// post sends one request through the gateway.
func post(client *http.Client, gateway, path string, body []byte, header map[string]string) (reply, error) {
	return send(client, http.MethodPost, gateway, path, bytes.NewReader(body), header)
}

func send(client *http.Client, method, gateway, path string, body io.Reader, header map[string]string) (reply, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+gateway+path, body)
	if err != nil {
		return reply{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: content}, err
}

// converse drives conversations in parallel, turn by turn, and fails the test at
// anything but a 200.
func converse(t *testing.T, client *http.Client, gateway string, conversations []*conversation, turns int) {
	t.Helper()
	const parallel = 8
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for _, c := range conversations {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for n := range turns {
				r, err := c.turn(client, gateway, fmt.Sprintf("%s asks question %d. %s", c.id, n, strings.Repeat("It has some more words. ", 6)))
				if err != nil || r.status != http.StatusOK {
					t.Errorf("session %s turn %d: %v, status %d: %s", c.id, n, err, r.status, r.body)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// digest is the lower-case hex SHA-256 of s.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// newConversations makes n sessions for a model.
func newConversations(prefix, model string, n int) []*conversation {
	cs := make([]*conversation, n)
	for i := range cs {
		cs[i] = &conversation{id: fmt.Sprintf("%s-%d", prefix, i), model: model}
	}
	return cs
}
