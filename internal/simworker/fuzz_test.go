package simworker

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// Whatever a client sends, decoding ends in an apiError or in a prompt within
// the limits.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"messages":[{"role":"x","content":[{"type":"text","text":"a"},{"type":"image_url"}],"tool_calls":[1]}],"tools":[{}],"max_completion_tokens":3}`,
		`{"prompt":[1,2,3],"max_tokens":2,"cache_salt":"s"}`,
		`{"prompt":["a"]}`, `{"prompt":[[1]]}`, `{"prompt":"","n":null}`, `null`, `[]`, `{"messages":[null]}`, `{"messages":{"a":1}}`,
		`{"tools":[` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `],"messages":[{"role":"user"}]}`,
	} {
		f.Add([]byte(seed))
	}
	const limit = 50
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, decode := range map[string]func([]byte, int) (completion, error){"chat": decodeChat, "text": decodeText} {
			c, err := decode(body, limit)
			if err != nil {
				var e *apiError
				if !errors.As(err, &e) || e.status != http.StatusBadRequest {
					t.Fatalf("%s: %v is no answer for a client", name, err)
				}
				continue
			}
			if len(c.prompt) < 1 || len(c.prompt) > limit || c.maxTokens < 0 || (c.includeUsage && !c.stream) {
				t.Fatalf("%s: %+v", name, c)
			}
			for _, id := range c.prompt {
				if id > maxToken {
					t.Fatalf("%s: token %#x", name, id)
				}
			}
		}
		obj, err := decodeObject(body)
		if err != nil {
			return
		}
		if tokens, err := decodeTokenize(obj); err == nil && len(tokens) > tokenizeLimit {
			t.Fatalf("tokenize: %d tokens", len(tokens))
		}
	})
}
