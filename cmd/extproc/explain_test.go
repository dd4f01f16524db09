package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestExplanationIsReadable(t *testing.T) {
	answer := `{"decision":"route","reason":"new","why":"its cost, 14.5, is the least of 3","worker_id":"7","dp_rank":0,"address":"10.0.0.7:8000",
		"session":"3f2a","model":"org/m","group":"default","prompt":{"source":"prompt","problem":"","tokens":41,"blocks":11,"block_size":4},
		"candidates":[
		{"worker_id":"7","dp_rank":0,"address":"10.0.0.7:8000","wins":true,"device_blocks":6,"host_blocks":2,"credit":7.5,"prefill_cost":3.5,"decode_blocks":11,"cost":14.5,"figures":null,"kv":{"state":"ready","reason":""}},
		{"worker_id":"18446744073709551557","dp_rank":null,"address":"","holed":true,"disk_blocks":1,"shared_blocks":3,"credit":0.125,"prefill_cost":10.875,"decode_blocks":11.333,"active_requests":2.7,"cost":24.908,"kv":{"state":"none","reason":""},"new_field":1},
		{"worker_id":"9","dp_rank":1,"address":"\u001b[31mx","full":true,"active_requests":100,"cost":null,"kv":{"state":"unknown","reason":"status_mismatch"}}]}`
	want := strings.TrimPrefix(`
route to worker 7 rank 0 at 10.0.0.7:8000: new
why        its cost, 14.5, is the least of 3
session    3f2a, model org/m, group default
prompt     41 tokens in 11 blocks of 4, from prompt

  WORKER                RANK  ADDRESS        DEVICE  HOST  DISK  SHARED  CREDIT  PREFILL  DECODE  REQUESTS  COST   
* 7                     0     10.0.0.7:8000  6       2     0     0       7.5     3.5      11      0         14.5   
  18446744073709551557  -     -              0       0     1     3       0.12    10.88    11.33   2.7       24.91  holed: its credit is reduced
  9                     1     "\x1b[31mx"    0       0     0     0       0       0        0       100       -      over its limits; its cache does not count: unknown, status_mismatch
`, "\n")
	var out bytes.Buffer
	if err := printExplanation(&out, jsontext.Value(answer)); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	for problem, line := range map[string]string{
		"tokenizer_timeout": "prompt     unknown: tokenizer_timeout", "not_requested": "prompt     not looked at: the choice does not depend on it",
		"no_kv_state": "prompt     not looked at: nothing is known of what workers hold",
	} {
		out.Reset()
		if err := printExplanation(&out, jsontext.Value(`{"decision":"refuse","reason":"overloaded","prompt":{"problem":"`+problem+`"}}`)); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.HasPrefix(text, "refuse: overloaded\n") || !strings.Contains(text, line+"\n") || strings.Contains(text, "WORKER") {
			t.Errorf("%s: %s", problem, text)
		}
	}
}

// What is sent is the file's own bytes, be they JSON or not.
func TestExplainSendsTheFile(t *testing.T) {
	var got string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		body.ReadFrom(r.Body)
		got = body.String()
		w.Write([]byte(`{"decision":"refuse","reason":"invalid"}`))
	}))
	defer api.Close()
	for content, want := range map[string]string{
		`{"seed":18446744073709551615,"a":1e400}`: `{"headers":{"a":["1","2=3"]},"body":{"seed":18446744073709551615,"a":1e400}}`,
		`{"a":1,"a":2}`: `{"headers":{"a":["1","2=3"]},"text":"{\"a\":1,\"a\":2}"}`,
		"no \"JSON\"":   `{"headers":{"a":["1","2=3"]},"text":"no \"JSON\""}`,
	} {
		file := filepath.Join(t.TempDir(), "request")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := explainCommand()
		cmd.SetOut(new(bytes.Buffer))
		cmd.SetArgs([]string{"--file", file, "--header", "A=1", "--header", "a=2=3", "--admin", api.URL})
		if err := cmd.ExecuteContext(context.Background()); err != nil || got != want {
			t.Errorf("%s: %v, sent %s, want %s", content, err, got, want)
		}
	}
}
