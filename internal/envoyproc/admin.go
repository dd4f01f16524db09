package envoyproc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	pollInterval = 20 * time.Millisecond
	maxAnswer    = 16 << 20 // bytes read of an admin answer
)

// waitReady waits for the admin address, for /ready and for the listeners.
func (p *Process) waitReady(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error
	for {
		if last = p.probe(ctx); last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("it gave up: %w (its log says why)", errors.Join(p.exit, last))
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		}
	}
}

func (p *Process) probe(ctx context.Context) error {
	address, err := os.ReadFile(p.adminFile())
	if err != nil {
		return err
	}
	if len(address) == 0 {
		return errors.New("the admin address is not written yet")
	}
	p.admin = string(address)
	if _, err := p.get(ctx, "/ready", nil); err != nil {
		return err
	}
	p.listeners, err = p.readListeners(ctx)
	return err
}

// get returns the body of an admin page.
func (p *Process) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	u := url.URL{Scheme: "http", Host: p.admin, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("envoy's %s: %s", path, resp.Status)
	}
	return body, nil
}

func (p *Process) getJSON(ctx context.Context, path string, query url.Values, into any) error {
	body, err := p.get(ctx, path, query)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("envoy's %s: %w", path, err)
	}
	return nil
}

// address is a socket or a Unix socket as Envoy's admin API shows it.
type address struct {
	Socket struct {
		Address string `json:"address"`
		Port    int    `json:"port_value"`
	} `json:"socket_address"`
	Pipe struct {
		Path string `json:"path"`
	} `json:"pipe"`
}

func (a address) String() string {
	if a.Pipe.Path != "" {
		return a.Pipe.Path
	}
	return net.JoinHostPort(a.Socket.Address, strconv.Itoa(a.Socket.Port))
}

func (p *Process) readListeners(ctx context.Context) (map[string]string, error) {
	var page struct {
		Statuses []struct {
			Name  string  `json:"name"`
			Local address `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := p.getJSON(ctx, "/listeners", url.Values{"format": {"json"}}, &page); err != nil {
		return nil, err
	}
	listeners := make(map[string]string, len(page.Statuses))
	for _, s := range page.Statuses {
		if s.Local.Socket.Port == 0 && s.Local.Pipe.Path == "" {
			return nil, fmt.Errorf("listener %s is not bound yet", s.Name)
		}
		listeners[s.Name] = s.Local.String()
	}
	return listeners, nil
}

// Stats returns the counters and gauges whose full name matches filter, an RE2
// expression that may match anywhere in the name.
func (p *Process) Stats(ctx context.Context, filter string) (map[string]uint64, error) {
	body, err := p.get(ctx, "/stats", url.Values{"filter": {filter}})
	if err != nil {
		return nil, err
	}
	stats := make(map[string]uint64)
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		// Histograms and text readouts are not numbers and are left out.
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			stats[name] = n
		}
	}
	return stats, nil
}

// Hosts returns the addresses of a cluster's hosts as Envoy has them now,
// "host:port" or the path of a Unix socket; none for a cluster it does not know.
func (p *Process) Hosts(ctx context.Context, cluster string) ([]string, error) {
	var page struct {
		Clusters []struct {
			Name  string `json:"name"`
			Hosts []struct {
				Address address `json:"address"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := p.getJSON(ctx, "/clusters", url.Values{"format": {"json"}}, &page); err != nil {
		return nil, err
	}
	var hosts []string
	for _, c := range page.Clusters {
		if c.Name != cluster {
			continue
		}
		for _, h := range c.Hosts {
			hosts = append(hosts, h.Address.String())
		}
	}
	return hosts, nil
}
