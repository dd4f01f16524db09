package e2e

import (
	"encoding/json"
	"testing"
	"time"
)

// TestKVPromptsOfEveryShape has one of two workers answer a request of each shape.
// The router must know of every block of the prompt there, of none at the other, and
// of no more than the worker then says were cached.
func TestKVPromptsOfEveryShape(t *testing.T) {
	t.Parallel()
	s := newKVStack(t, stackConfig{
		models: []string{"sim", "sim"}, workerFlags: append(kvSockets(), "--adapter", "adapter-7"),
		workerKeys: func(w *simWorker) string { return kvKeys(w) + `, adapters: ["adapter-7"]` },
	})
	holder := s.workers[0]
	type object = map[string]any
	chat := func(topic string, more object) object {
		body := object{"model": "sim", "max_tokens": 4, "messages": []message{{"system", systemPrompt(topic)}, {"user", "What is it?"}}}
		for name, value := range more {
			body[name] = value
		}
		return body
	}
	tool := object{"type": "function", "function": object{"name": "look_up", "parameters": object{"type": "object", "properties": object{"what": object{"type": "string"}}}}}
	const chats, texts = "/v1/chat/completions", "/v1/completions"
	tests := []struct {
		name, path, source string
		body               object
	}{
		{"messages", chats, "tokenizer", chat("Astronomy", nil)},
		{"parts", chats, "tokenizer", chat("Botany", object{"messages": []object{
			{"role": "system", "content": []object{{"type": "text", "text": systemPrompt("Parts")}, {"type": "image_url", "image_url": object{"url": "data:,x"}}}},
			{"role": "user", "content": "What is it?"},
		}})},
		{"tools", chats, "tokenizer", chat("Chess", object{"tools": []object{tool}, "tool_choice": "auto"})},
		{"tool calls", chats, "tokenizer", chat("Dance", object{"messages": []object{
			{"role": "system", "content": systemPrompt("Dance")}, {"role": "user", "content": "What is it?"},
			{"role": "assistant", "content": nil, "tool_calls": []object{{"id": "c1", "type": "function", "function": object{"name": "look_up", "arguments": "{}"}}}},
			{"role": "tool", "tool_call_id": "c1", "content": "It is art."},
		}})},
		{"text", texts, "tokenizer", object{"model": "sim", "max_tokens": 4, "prompt": systemPrompt("Egypt")}},
		{"token ids", texts, "prompt", object{"model": "sim", "max_tokens": 4, "prompt": s.tokens(holder, "Fishing")}},
		{"token data", chats, "token_data", chat("Geology", object{"nvext": object{"token_data": s.tokens(holder, "Geology")}})},
		{"adapter", chats, "tokenizer", chat("Astronomy", object{"model": "adapter-7"})},
		{"salt", chats, "tokenizer", chat("Astronomy", object{"cache_salt": "adapter-7"})},
		{"adapter and salt", chats, "tokenizer", chat("Astronomy", object{"model": "adapter-7", "cache_salt": "tenant-a"})},
		{"adapter's ids", texts, "prompt", object{"model": "adapter-7", "max_tokens": 4, "prompt": s.tokens(holder, "Astronomy")}},
	}
	s.seed(holder.address, "The first") // from now on a block has a size
	s.inStep(holder)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, err := json.Marshal(tt.body)
			if err != nil {
				t.Fatal(err)
			}
			before := s.explainBody(tt.name, body)
			held := before.at(t, holder).Device
			if held > 3 && tt.name != "adapter's ids" || before.Prompt.Source != tt.source || before.Prompt.Tokens < 300 {
				t.Errorf("before: %d blocks are held of %+v", held, before.Prompt)
			}
			if cached := cachedTokens(t, []byte(holder.tell(tt.path, string(body)))); cached != before.whole(held) {
				t.Errorf("%d tokens were cached, the router knew of %d blocks", cached, held)
			}
			want := before.Prompt.Tokens / 16
			if tt.name == "token data" { // the last blocks are not in the data
				want = len(s.tokens(holder, "Geology")) / 16
			}
			eventually(t, 10*time.Second, "all blocks are known", func() bool { return s.explainBody(tt.name, body).at(t, holder).Device == want })
			if c := s.explainBody(tt.name, body).at(t, s.workers[1]); c.Device != 0 {
				t.Errorf("%d blocks are at the other worker", c.Device)
			}
			s.equalLoad()
			r := s.mustPost(tt.path, "of "+tt.name, body)
			if at := r.header.Get("X-Sim-Worker"); at != holder.address {
				t.Errorf("it went to %s, want %s", at, holder.address)
			}
			if cached := cachedTokens(t, r.body); cached < before.whole(want) {
				t.Errorf("%d tokens were cached, the router knew of %d blocks", cached, want)
			}
			t.Logf("%d tokens from %s, %d blocks held", before.Prompt.Tokens, before.Prompt.Source, want)
		})
	}
}

// whole is how many tokens of a prompt need no computing if its first blocks are
// held: the last token of a prompt always does.
func (e explained) whole(blocks int) int { return 16 * min(blocks, (e.Prompt.Tokens-1)/16) }

// cachedTokens reads how many tokens of the prompt were cached, as a worker says.
func cachedTokens(t *testing.T, body []byte) int {
	t.Helper()
	var answer struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return answer.Usage.Details.Cached
}
