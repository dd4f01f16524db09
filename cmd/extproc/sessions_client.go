package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of one call of the admin API. A page of 10,000 sessions is a few MiB.
const (
	adminTimeout   = 30 * time.Second
	maxAdminAnswer = 64 << 20
	adminPage      = 10_000
)

// adminClient calls the admin API of one replica, for one command.
type adminClient struct {
	ctx  context.Context // the command's
	base string          // without a slash at the end
	http http.Client
}

func newAdminClient(ctx context.Context, admin string) (*adminClient, error) {
	u, err := url.Parse(admin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, usageError{fmt.Errorf("--admin %q: want a URL like http://127.0.0.1:9090", admin)}
	}
	return &adminClient{
		ctx:  ctx,
		base: strings.TrimRight(u.String(), "/"),
		http: http.Client{
			Timeout:       adminTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// do calls the API and returns the body of its answer. Path is escaped already.
// What the API refuses is an error with the API's message as it is.
func (c *adminClient) do(method, path string, body any) (jsontext.Value, error) {
	content := []byte(nil)
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
	}
	request, err := http.NewRequestWithContext(c.ctx, method, c.base+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		// The URL names the session, which has no place in a log of errors.
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		if network := (*net.OpError)(nil); !errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			return nil, fmt.Errorf("%s does not answer as HTTP: is it the admin listener (listen.admin)?", c.base)
		}
		return nil, fmt.Errorf("cannot reach the replica at %s (see --admin): %w", c.base, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAdminAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer of %s: %w", c.base, err)
	case len(answer) > maxAdminAnswer:
		return nil, fmt.Errorf("the answer of %s is over %d bytes", c.base, maxAdminAnswer)
	case response.StatusCode/100 == 2:
		return answer, nil
	}
	return nil, c.refusal(response.Status, answer)
}

func (c *adminClient) refusal(status string, answer []byte) error {
	var refused struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &refused); err != nil || refused.Error.Message == "" {
		return fmt.Errorf("%s answered %s and is no admin API of Mooring", c.base, status)
	}
	return errors.New(printable(refused.Error.Message))
}

// list returns at most limit sessions and whether there are more.
func (c *adminClient) list(filter url.Values, limit int) (sessions []jsontext.Value, more bool, err error) {
	for after := ""; ; {
		query := maps.Clone(filter)
		query.Set("limit", strconv.Itoa(min(limit-len(sessions), adminPage)))
		if after != "" {
			query.Set("after", after)
		}
		answer, err := c.do(http.MethodGet, "/v1/sessions?"+query.Encode(), nil)
		if err != nil {
			return nil, false, err
		}
		var page struct {
			Sessions []jsontext.Value `json:"sessions"`
			Next     string           `json:"next"`
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			return nil, false, fmt.Errorf("read the replica's answer: %w", err)
		}
		sessions = append(sessions, page.Sessions...)
		if page.Next == "" || len(sessions) >= limit || page.Next == after {
			return sessions, page.Next != "", nil
		}
		after = page.Next
	}
}

type partitionName struct{ model, group string }

// partitions returns the pairs of model and group that the replica's workers
// have, in order, restricted to a model or an adapter and a group where given.
func (c *adminClient) partitions(model, group string) ([]partitionName, error) {
	answer, err := c.do(http.MethodGet, "/v1/workers", nil)
	if err != nil {
		return nil, err
	}
	var fleet struct {
		Workers []struct {
			Models   []string `json:"models"`
			Adapters []string `json:"adapters"`
			Group    string   `json:"group"`
		} `json:"workers"`
	}
	if err := json.Unmarshal(answer, &fleet); err != nil {
		return nil, fmt.Errorf("read the replica's answer: %w", err)
	}
	var found []partitionName
	for _, w := range fleet.Workers {
		if group != "" && w.Group != group {
			continue
		}
		for i, m := range w.Models {
			isMeant := model == "" || m == model || i == 0 && slices.Contains(w.Adapters, model)
			if p := (partitionName{m, w.Group}); isMeant && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	slices.SortFunc(found, func(a, b partitionName) int {
		return strings.Compare(a.model+"\x00"+a.group, b.model+"\x00"+b.group)
	})
	return found, nil
}
