package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// values compares what two configurations say, not where they say it.
func values() cmp.Option { return cmpopts.IgnoreUnexported(Config{}) }

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("mooring.yaml", []byte(text))
	if err != nil {
		t.Fatalf("parse:\n%v", err)
	}
	return c
}

func TestNothingAtAllMeansTheDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"no byte": "", "blanks": " \n\n", "a comment": "# later\n", "an empty mapping": "{}", "null": "~\n",
		"a marker": "---\n", "headings only": "listen:\nsession:\nworkers:\n  static:\n", "a byte order mark": "\ufeff{}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(Default(), mustParse(t, text), values()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The block is copied from design.md 2.2: what the users' documentation states
// as defaults are the defaults. Its examples of workers and peers are not.
func TestDocumentedFileIsTheDefaults(t *testing.T) {
	data, err := os.ReadFile("testdata/documented.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("documented.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Workers.Static) != 1 || len(c.Replication.Peers) != 1 {
		t.Fatalf("examples: %+v, %+v", c.Workers.Static, c.Replication.Peers)
	}
	c.Workers.Static, c.Replication.Peers = nil, nil
	if diff := cmp.Diff(Default(), c, values()); diff != "" {
		t.Error(diff)
	}
}

// Every key of the table, set to its default by hand, is accepted: defaults are
// inside their ranges.
func TestEveryDefaultIsAllowed(t *testing.T) {
	c := mustParse(t, everyKey)
	if diff := cmp.Diff(Default(), c, values()); diff != "" {
		t.Error(diff)
	}
	for _, k := range fileSchema().keys {
		if _, set := c.lines[k.path]; !set {
			t.Errorf("%s is not set by this test", k.path)
		}
	}
	if err := Default().contradictions().orNil(); err != nil {
		t.Error(err)
	}
}

const everyKey = `
listen:
  extproc: 127.0.0.1:9002
  admin: 127.0.0.1:9090
  tls: {cert_file: "", key_file: "", client_ca_file: ""}
request:
  model: {header: "", default: ""}
  routing_group: {header: x-routing-group, default: default}
  explicit_target: false
  max_body_bytes: 16MiB
  deadline: 2s
  end: access_log
  max_request_time: 1h
session:
  headers: [x-dynamo-session-id, x-claude-code-session-id, thread-id, x-deepseek-harness-session-id, x-session-id]
  mode: hard
  ttl: 30m
  max_sessions: 65536
  init_timeout: 5s
  on_worker_gone: rebind
  wait_for: 5s
  expose: false
workers:
  static:
  file: ""
  health: {path: /health, interval: 2s, timeout: 1s, unhealthy_after: 2, healthy_after: 3}
  metrics: {path: /metrics, interval: 1s}
  grace: 30s
replication:
  listen: tcp://127.0.0.1:9092
  peers: []
  publish: [v2, v1]
  key_file: ""
  writer_id: 0
  sync_timeout: 3s
  digest_interval: 5s
  max_clock_skew: 1h
kvstate: {records_dir: "", block_size: 0, max_blocks: 4194304, holed_weight: 0.5}
routing:
  tokenizer: {url: "", deadline: 50ms}
  overlap_score_credit: 1.0
  overlap_score_credit_decay: 0
  prefill_load_scale: 1.0
  host_cache_hit_weight: 0.75
  disk_cache_hit_weight: 0.25
  shared_cache_multiplier: 0
  decode_active_request_weight: 1
  temperature: 0
  limits: {active_requests: 0, waiting_requests: 0, kv_use: 0}
envoy:
  listener: 127.0.0.1:10000
  admin: 127.0.0.1:9901
  attachment: override_host
  body_mode: full_duplex
  destination_header: false
  endpoints_file: mooring-endpoints/workers.yaml
shutdown: {drain: 30s}
telemetry: {service_name: mooring}
`

func TestValuesReachTheirFields(t *testing.T) {
	c := mustParse(t, `
listen: {extproc: "unix:///run/mooring/extproc.sock", admin: ":0", tls: {cert_file: c, key_file: k, client_ca_file: a}}
request:
  model: {header: x-model, default: m}
  routing_group: {header: "", default: g}
  explicit_target: true
  max_body_bytes: 1 GiB
  deadline: 1m
  end: stream
  max_request_time: 168h
session: {headers: [x-a, x-b], mode: soft, ttl: 8760h, max_sessions: 1, init_timeout: 1ms, on_worker_gone: fail, wait_for: 0, expose: true}
workers:
  file: w.yaml
  health: {path: "", interval: 10ms, timeout: 1m30s, unhealthy_after: 1, healthy_after: 100}
  metrics: {path: "/m?x=1", interval: 1h}
  grace: 0s
replication:
  listen: ""
  peers: ["tcp://[2001:DB8::1]:9092", "tcp://peer.example:9092"]
  publish: [v2]
  key_file: f
  writer_id: 18446744073709551615
  sync_timeout: 0
  digest_interval: 100ms
  max_clock_skew: 24h
kvstate: {records_dir: d, block_size: 64, max_blocks: 1, holed_weight: 1}
routing:
  tokenizer: {url: "https://tok.example/tokenize", deadline: 1s}
  overlap_score_credit: 0
  overlap_score_credit_decay: 0.5
  prefill_load_scale: 2
  host_cache_hit_weight: 1e-1
  disk_cache_hit_weight: 0.2
  shared_cache_multiplier: 0.3
  decode_active_request_weight: 4
  temperature: 5
  limits: {active_requests: 6, waiting_requests: 7, kv_use: 0.8}
envoy: {listener: "[::]:80", admin: "", attachment: original_dst, body_mode: none, destination_header: true, endpoints_file: e}
shutdown: {drain: 1h}
telemetry: {service_name: s}
`)
	want := &Config{
		Listen: Listen{ExtProc: "unix:///run/mooring/extproc.sock", Admin: ":0", TLS: TLS{"c", "k", "a"}},
		Request: Request{Model: HeaderOrDefault{"x-model", "m"}, RoutingGroup: HeaderOrDefault{"", "g"}, ExplicitTarget: true,
			MaxBodyBytes: GiB, Deadline: time.Minute, End: EndStream, MaxRequestTime: week},
		Session: Session{Headers: []string{"x-a", "x-b"}, Mode: ModeSoft, TTL: year, MaxSessions: 1,
			InitTimeout: time.Millisecond, OnWorkerGone: WorkerGoneFail, Expose: true},
		Workers: Workers{File: "w.yaml", Health: Health{"", 10 * time.Millisecond, 90 * time.Second, 1, 100},
			Metrics: Metrics{"/m?x=1", time.Hour}},
		Replication: Replication{Peers: []string{"tcp://[2001:db8::1]:9092", "tcp://peer.example:9092"}, Publish: []Topic{TopicV2},
			KeyFile: "f", WriterID: 18446744073709551615, DigestInterval: 100 * time.Millisecond, MaxClockSkew: day},
		KVState:   KVState{"d", 64, 1, 1},
		Routing:   Routing{Tokenizer{"https://tok.example/tokenize", time.Second}, 0, 0.5, 2, 0.1, 0.2, 0.3, 4, 5, Limits{6, 7, 0.8}},
		Envoy:     Envoy{"[::]:80", "", AttachOriginalDst, BodyNone, true, "e"},
		Shutdown:  Shutdown{time.Hour},
		Telemetry: Telemetry{"s"},
	}
	if diff := cmp.Diff(want, c, values()); diff != "" {
		t.Error(diff)
	}
	if c = mustParse(t, `{routing: {tokenizer: {url: "off"}}}`); c.Routing.Tokenizer.URL != TokenizerOff {
		t.Errorf("tokenizer url: %q", c.Routing.Tokenizer.URL)
	}
}

func TestProblemsAreOneLineEachAndOrdered(t *testing.T) {
	_, err := Parse("f.yaml", []byte("x: 1\nsession: {ttl: 0s, mode: \"a\\nb\"}\ny: 1\n"))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 4 {
		t.Fatalf("want 4 lines:\n%v", err)
	}
	form := regexp.MustCompile(`^f\.yaml:[1-3]: [^;]+; .+$`)
	for i, line := range lines {
		if !form.MatchString(line) || i > 0 && line[:8] < lines[i-1][:8] {
			t.Errorf("line %d: %s", i, line)
		}
	}
}
