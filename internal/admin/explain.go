package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mooring/internal/fleet"
	"mooring/routing"
)

// Bounds of one POST /v1/explain.
const (
	maxExplained   = 32 << 20        // bytes of its body; a body in it counts as text too
	explainTimeout = 5 * time.Second // a tokenizer may be asked
)

// explained is the body of POST /v1/explain. A header has one value, or a list of
// them. The request's body is JSON, or any text:
//
//	{"headers":{"x-session-id":"s"},"body":{"model":"m","prompt":[1,2,3]}}
type explained struct {
	Headers map[string]jsontext.Value `json:"headers"`
	Body    jsontext.Value            `json:"body"`
	Text    *string                   `json:"text"`
}

// explainJSON is the answer of POST /v1/explain.
type explainJSON struct {
	Decision   string          `json:"decision"` // route or refuse
	Reason     string          `json:"reason"`
	Why        string          `json:"why"`
	WorkerID   string          `json:"worker_id"` // empty: refused
	Rank       *uint32         `json:"dp_rank"`
	Address    string          `json:"address"`
	Session    string          `json:"session"`
	Model      string          `json:"model"`
	Group      string          `json:"group"`
	Prompt     promptJSON      `json:"prompt"`
	Candidates []candidateJSON `json:"candidates"`
}

// promptJSON says how the prompt became blocks.
type promptJSON struct {
	Source    string `json:"source"`  // prompt, token_data or tokenizer; empty: not known
	Problem   string `json:"problem"` // why it is not known
	Tokens    int    `json:"tokens"`
	Blocks    int    `json:"blocks"`
	BlockSize int    `json:"block_size"`
}

// candidateJSON is one target with the parts of its cost, all in blocks.
type candidateJSON struct {
	WorkerID    string       `json:"worker_id"`
	Rank        *uint32      `json:"dp_rank"`
	Address     string       `json:"address"`
	Wins        bool         `json:"wins"`
	Full        bool         `json:"full"` // over its limits
	Device      int          `json:"device_blocks"`
	Host        int          `json:"host_blocks"`
	Disk        int          `json:"disk_blocks"`
	Shared      int          `json:"shared_blocks"`
	Holed       bool         `json:"holed"`
	KV          KV           `json:"kv"` // whether its blocks count, and why not
	Decay       float64      `json:"credit_decay"`
	Credit      float64      `json:"credit"`
	RawPrefill  float64      `json:"raw_prefill_blocks"`
	Prefill     float64      `json:"prefill_cost"`
	Decode      float64      `json:"decode_blocks"`
	Requests    float64      `json:"active_requests"`
	RequestCost float64      `json:"request_cost"`
	Cost        *float64     `json:"cost"` // null: the prompt is not known, requests decide
	Figures     *figuresJSON `json:"figures"`
}

// figuresJSON is what a worker last said of its load.
type figuresJSON struct {
	Running   int     `json:"running"`
	Waiting   int     `json:"waiting"`
	KVUse     float64 `json:"kv_use"`
	AgeMS     int64   `json:"age_ms"`
	Freshness float64 `json:"freshness"` // 0 to 1: what they count
}

// postExplain says what this replica would do with a request, changing nothing.
func (s *server) postExplain(w http.ResponseWriter, r *http.Request) error {
	var in explained
	if err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxExplained), &in, json.RejectUnknownMembers(true)); err != nil {
		return badBody(err, `the body must be {"headers":{..},"body":{..}} or have "text" instead of "body"`, "a field is of another type")
	}
	headers, err := in.values()
	if err != nil {
		return err
	}
	body, err := in.body()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	return answer(w, http.StatusOK, s.newExplainJSON(s.explain(ctx, headers, body), time.Now()))
}

// explain reads a request as the filter does. What it refuses is explained too.
func (s *server) explain(ctx context.Context, headers http.Header, body []byte) *routing.Explanation {
	router := s.cfg.Router
	req, err := router.ReadHeaders(func(name string) []string { return headers[name] })
	if err == nil && len(body) > 0 {
		err = router.ReadBody(&req, "", body)
	}
	var refused *routing.Error
	if errors.As(err, &refused) {
		return &routing.Explanation{
			Reason: refused.Reason, Refused: refused, Why: refused.Message, Session: req.Session, Partition: fleet.Partition{Group: req.Group},
		}
	}
	return router.Explain(ctx, &req)
}

func (in *explained) body() ([]byte, error) {
	given := in.Body != nil && in.Body.Kind() != 'n'
	switch {
	case given && in.Text != nil:
		return nil, invalid("the request to explain has a body and a text; it can have one of them")
	case given:
		return in.Body, nil
	case in.Text != nil:
		return []byte(*in.Text), nil
	default:
		return nil, nil
	}
}

// values returns the headers by their lower-case names.
func (in *explained) values() (http.Header, error) {
	headers := make(http.Header, len(in.Headers))
	for name, value := range in.Headers {
		var several []string
		if value.Kind() == '"' {
			several = make([]string, 1)
			if err := json.Unmarshal(value, &several[0]); err != nil {
				return nil, invalid("header %q is no text", name)
			}
		} else if err := json.Unmarshal(value, &several); err != nil {
			return nil, invalid("header %q must be a text or a list of texts", name)
		}
		name = strings.ToLower(name)
		headers[name] = append(headers[name], several...)
	}
	return headers, nil
}

func (s *server) newExplainJSON(e *routing.Explanation, now time.Time) explainJSON {
	out := explainJSON{
		Decision: "route", Reason: e.Reason.String(), Why: e.Why, Address: e.Address, Session: e.Session, Model: e.Partition.Model, Group: e.Partition.Group,
		Prompt: promptJSON(e.Prompt), Candidates: make([]candidateJSON, len(e.Candidates)),
	}
	if e.Refused != nil {
		out.Decision = "refuse"
	} else {
		out.WorkerID, out.Rank = targetJSON(e.Target)
	}
	for i := range e.Candidates {
		out.Candidates[i] = newCandidateJSON(&e.Candidates[i], now)
		out.Candidates[i].KV = s.kvOf(e.Candidates[i].Target)
		out.Candidates[i].Wins = e.Refused == nil && e.Candidates[i].Target == e.Target
	}
	return out
}

func newCandidateJSON(c *routing.Candidate, now time.Time) candidateJSON {
	out := candidateJSON{
		Address: c.Address, Full: c.Full,
		Device: c.Overlap.Device, Host: c.Overlap.Host, Disk: c.Overlap.Disk, Shared: c.Overlap.Shared, Holed: c.Overlap.Holed,
		Decay: c.Cost.Decay, Credit: c.Cost.Credit, RawPrefill: c.Cost.RawPrefill, Prefill: c.Cost.Prefill,
		Decode: c.Work.Decode, Requests: c.Work.Requests, RequestCost: c.Cost.Requests,
	}
	out.WorkerID, out.Rank = targetJSON(c.Target)
	if c.Cost != (routing.Cost{}) {
		out.Cost = &c.Cost.Total
	}
	if c.HasFigures {
		f := c.Figures
		out.Figures = &figuresJSON{Running: f.Running, Waiting: f.Waiting, KVUse: f.KVUse, AgeMS: now.Sub(f.At).Milliseconds(), Freshness: c.Freshness}
	}
	return out
}

func targetJSON(t fleet.Target) (worker string, rank *uint32) {
	if t.Ranked {
		rank = &t.Rank
	}
	return t.Worker.String(), rank
}
