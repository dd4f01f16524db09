package simworker

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestChatAnswer(t *testing.T) {
	h := newWorker(t, Config{Name: "w1", Models: []string{"m"}, Tokens: 4}).Handler()
	const body = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	rec := ask(t, h, "POST", "/v1/chat/completions", body)
	got := decode[completionBody](t, rec)
	if got.ID != "chatcmpl-w1-1" || got.Object != "chat.completion" || got.Model != "m" || got.Created == 0 {
		t.Errorf("%+v", got)
	}
	c := got.Choices[0]
	if len(got.Choices) != 1 || c.Message.Role != "assistant" || *c.FinishReason != "stop" || len(strings.Fields(*c.Message.Content)) != 4 {
		t.Errorf("choice %+v", c)
	}
	if want := (usage{PromptTokens: 6, CompletionTokens: 4, TotalTokens: 10}); *got.Usage != want {
		t.Errorf("usage %+v, want %+v", *got.Usage, want)
	}
	if rec.Header().Get("x-sim-worker") != "w1" || rec.Header().Get("x-sim-rank") != "0" || rec.Header().Get("content-type") != "application/json" {
		t.Errorf("headers %v", rec.Header())
	}
	if !strings.Contains(rec.Body.String(), `"prompt_tokens_details":{"cached_tokens":0}`) {
		t.Errorf("%s", rec.Body)
	}

	// The same prompt has the same reply, and any worker gives it.
	other := decode[completionBody](t, ask(t, newWorker(t, Config{Tokens: 4}).Handler(), "POST", "/v1/chat/completions", strings.Replace(body, `"m"`, `""`, 1)))
	if *other.Choices[0].Message.Content != *c.Message.Content || other.Model != "default" {
		t.Errorf("another worker answers %+v", other.Choices[0])
	}
	cut := decode[completionBody](t, ask(t, h, "POST", "/v1/chat/completions", strings.Replace(body, `{`, `{"max_tokens":9,"max_completion_tokens":2,`, 1)))
	if *cut.Choices[0].FinishReason != "length" || cut.Usage.CompletionTokens != 2 {
		t.Errorf("with max_completion_tokens: %+v", cut)
	}
}

func TestChatEvents(t *testing.T) {
	h := newWorker(t, Config{Name: "w1", Tokens: 3}).Handler()
	const body = `{"messages":[{"role":"user","content":"hello"}]`
	whole := decode[completionBody](t, ask(t, h, "POST", "/v1/chat/completions", body+`}`))

	rec := ask(t, h, "POST", "/v1/chat/completions", body+`,"stream":true}`)
	if got := rec.Header().Get("content-type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("content-type %s", got)
	}
	if !strings.Contains(rec.Body.String(), `"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null`) {
		t.Errorf("no opening: %s", rec.Body)
	}
	chunks := eventsOf(t, rec.Body)
	if len(chunks) != 1+3+1 {
		t.Fatalf("%d chunks, want role, 3 tokens, finish", len(chunks))
	}
	var reply strings.Builder
	for i, chunk := range chunks {
		if chunk.ID != "chatcmpl-w1-2" || chunk.Object != "chat.completion.chunk" || chunk.Usage != nil || len(chunk.Choices) != 1 {
			t.Errorf("chunk %d: %+v", i, chunk)
		}
		c := chunk.Choices[0]
		if (c.Delta.Role == "assistant") != (i == 0) || (c.FinishReason != nil) != (i == 4) {
			t.Errorf("chunk %d: %+v", i, c)
		}
		if c.Delta.Content != nil {
			reply.WriteString(*c.Delta.Content)
		}
	}
	if *chunks[4].Choices[0].FinishReason != "stop" || reply.String() != *whole.Choices[0].Message.Content {
		t.Errorf("streamed %q, whole %q", reply.String(), *whole.Choices[0].Message.Content)
	}

	rec = ask(t, h, "POST", "/v1/chat/completions", body+`,"stream":true,"stream_options":{"include_usage":true}}`)
	if !strings.Contains(rec.Body.String(), `"choices":[],"usage":{"prompt_tokens":6,`) {
		t.Errorf("no usage chunk: %s", rec.Body)
	}
	chunks = eventsOf(t, rec.Body)
	if last := chunks[len(chunks)-1]; len(chunks) != 6 || last.Usage == nil || last.Usage.TotalTokens != 9 {
		t.Errorf("%d chunks, last %+v", len(chunks), last)
	}
}

func TestTextCompletion(t *testing.T) {
	h := newWorker(t, Config{Tokens: 3}).Handler()
	whole := decode[completionBody](t, ask(t, h, "POST", "/v1/completions", `{"prompt":"once upon a"}`))
	if whole.Object != "text_completion" || whole.Choices[0].Text == nil || *whole.Choices[0].FinishReason != "stop" {
		t.Errorf("%+v", whole)
	}
	var reply strings.Builder
	chunks := eventsOf(t, ask(t, h, "POST", "/v1/completions", `{"prompt":["once upon a"],"stream":true}`).Body)
	for _, chunk := range chunks {
		reply.WriteString(*chunk.Choices[0].Text)
	}
	if len(chunks) != 4 || reply.String() != *whole.Choices[0].Text {
		t.Errorf("streamed %q in %d chunks, whole %q", reply.String(), len(chunks), *whole.Choices[0].Text)
	}
	// The tokens that /tokenize gives are the ones that count.
	tokens, err := json.Marshal(decode[tokenizeAnswer](t, ask(t, h, "POST", "/tokenize", `{"prompt":"once upon a"}`)).Tokens)
	if err != nil {
		t.Fatal(err)
	}
	same := decode[completionBody](t, ask(t, h, "POST", "/v1/completions", `{"prompt":[`+string(tokens)+`]}`))
	if *same.Choices[0].Text != *whole.Choices[0].Text || same.Usage.PromptTokens != whole.Usage.PromptTokens {
		t.Errorf("by tokens %+v, by text %+v", same, whole)
	}
}

func TestTokenize(t *testing.T) {
	h := newWorker(t, Config{Models: []string{"m"}, CacheBlocks: 10}).Handler()
	rec := ask(t, h, "POST", "/tokenize", `{"model":"m","prompt":"hi of","return_token_strs":true}`)
	if want := `{"count":2,"max_model_len":160,"tokens":[92265,18902886],"token_strs":["hi"," of"]}`; rec.Body.String() != want {
		t.Errorf("%s, want %s", rec.Body, want)
	}
	if rec := ask(t, h, "POST", "/tokenize", `{"prompt":""}`); rec.Body.String() != `{"count":0,"max_model_len":160,"tokens":[]}` {
		t.Errorf("empty prompt: %d %s", rec.Code, rec.Body)
	}
	chat := decode[tokenizeAnswer](t, ask(t, h, "POST", "/tokenize", `{"messages":[{"role":"user","content":"hi of"}]}`))
	if want := []token{markBegin, markUser, 92265, 18902886, markEnd, markAssistant}; !slices.Equal(chat.Tokens, want) {
		t.Errorf("messages: %v, want %v", chat.Tokens, want)
	}
	bare := decode[tokenizeAnswer](t, ask(t, h, "POST", "/tokenize", `{"messages":[{"role":"user","content":"hi of"}],"add_generation_prompt":false}`))
	if !slices.Equal(bare.Tokens, chat.Tokens[:5]) {
		t.Errorf("without generation prompt: %v", bare.Tokens)
	}
	usage := decode[completionBody](t, ask(t, h, "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi of"}]}`)).Usage
	if usage.PromptTokens != chat.Count {
		t.Errorf("a completion has %d prompt tokens, /tokenize says %d", usage.PromptTokens, chat.Count)
	}
	back := ask(t, h, "POST", "/detokenize", `{"tokens":[92265,18902886]}`)
	if back.Body.String() != `{"prompt":"hi of"}` {
		t.Errorf("detokenize: %s", back.Body)
	}
}

func TestModels(t *testing.T) {
	h := newWorker(t, Config{Models: []string{"a/m", "b"}, Adapters: []string{"lora"}, CacheBlocks: 2}).Handler()
	list := decode[modelList](t, ask(t, h, "GET", "/v1/models", ""))
	var got []string
	for _, m := range list.Data {
		parent := ""
		if m.Parent != nil {
			parent = *m.Parent
		}
		got = append(got, fmt.Sprintf("%s<%s %d", m.ID, parent, m.MaxModelLen))
	}
	if want := []string{"a/m< 32", "b< 32", "lora<a/m 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEmbeddings(t *testing.T) {
	h := newWorker(t, Config{}).Handler()
	list := decode[embeddingList](t, ask(t, h, "POST", "/v1/embeddings", `{"input":["hi","hi","you"]}`))
	if len(list.Data) != 3 || list.Usage.PromptTokens != 3 || list.Model != "default" {
		t.Fatalf("%+v", list)
	}
	vectors := make([][]any, 3)
	for i, e := range list.Data {
		vectors[i] = e.Embedding.([]any)
		if e.Index != i || len(vectors[i]) != embeddingSize {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if !slices.Equal(vectors[0], vectors[1]) || slices.Equal(vectors[0], vectors[2]) {
		t.Errorf("vectors %v", vectors)
	}
	var squares float64
	for _, v := range vectors[0] {
		squares += v.(float64) * v.(float64)
	}
	if squares < 0.999 || squares > 1.001 {
		t.Errorf("length² %v", squares)
	}
	coded := decode[embeddingList](t, ask(t, h, "POST", "/v1/embeddings", `{"input":"hi","encoding_format":"base64"}`))
	raw, err := base64.StdEncoding.DecodeString(coded.Data[0].Embedding.(string))
	if err != nil || len(raw) != 4*embeddingSize {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

func TestHealth(t *testing.T) {
	w := newWorker(t, Config{})
	if rec := ask(t, w.Handler(), "GET", "/health", ""); rec.Code != 200 {
		t.Errorf("status %d", rec.Code)
	}
	if got := w.Requests(); len(got) != 0 {
		t.Errorf("a probe is remembered: %+v", got)
	}
}

func TestRefusals(t *testing.T) {
	const chat, text = "/v1/chat/completions", "/v1/completions"
	w := newWorker(t, Config{Models: []string{"m"}, Ranks: 2, BlockSize: 4, CacheBlocks: 8, MaxBodyBytes: 500})
	for _, c := range []struct {
		path, body string
		header     string // x-data-parallel-rank
		status     int
		message    string
	}{
		{chat, ``, "", 400, "not valid JSON"},
		{chat, `{`, "", 400, "not valid JSON"},
		{chat, `{} {}`, "", 400, "not valid JSON"},
		{chat, `[1]`, "", 400, "must be a JSON object, not a JSON array"},
		{chat, `null`, "", 400, "must be a JSON object"},
		{chat, `{"model":"m"}`, "", 400, "messages is missing or empty"},
		{chat, `{"messages":[]}`, "", 400, "messages is missing or empty"},
		{chat, `{"messages":"hi"}`, "", 400, "messages: a JSON string is not possible here"},
		{chat, `{"messages":[{"content":"hi"}]}`, "", 400, "messages[0].role is missing"},
		{chat, `{"messages":[{"role":"user","content":7}]}`, "", 400, "content must be a string or a list of parts"},
		{chat, `{"messages":[{"role":"user","content":[1]}]}`, "", 400, "content must be"},
		{chat, `{"Messages":[{"role":"user","content":"hi"}]}`, "", 400, "messages is missing or empty"},
		{chat, `{"model":7,"messages":[{"role":"user"}]}`, "", 400, "model: a JSON number is not possible here"},
		{chat, `{"stream":"yes","messages":[{"role":"user"}]}`, "", 400, "stream: a JSON string"},
		{chat, `{"max_tokens":1.5,"messages":[{"role":"user"}]}`, "", 400, "max_tokens: "},
		{chat, `{"max_tokens":0,"messages":[{"role":"user"}]}`, "", 400, "max_tokens must be at least 1, got 0"},
		{chat, `{"max_tokens":-1,"messages":[{"role":"user"}]}`, "", 400, "max_tokens must be at least 1"},
		{chat, `{"max_tokens":29,"messages":[{"role":"user"}]}`, "", 400, "maximum context length is 32 tokens: the prompt has 4, and 29"},
		{chat, `{"max_tokens":9223372036854775807,"messages":[{"role":"user"}]}`, "", 400, "maximum context length"},
		{chat, `{"n":2,"messages":[{"role":"user"}]}`, "", 400, "n: this worker"},
		{chat, `{"messages":[{"role":"user","content":"` + strings.Repeat("a ", 32) + `"}]}`, "", 400, "messages: more than 32 tokens"},
		{chat, `{"model":"x","messages":[{"role":"user"}]}`, "", 404, "The model `x` does not exist."},
		{chat, `{"messages":[{"role":"user"}]}`, "2", 400, "x-data-parallel-rank must be one number from 0 to 1"},
		{chat, `{"messages":[{"role":"user"}]}`, "-1", 400, "x-data-parallel-rank"},
		{chat, `{"messages":[{"role":"user"}]}`, "one", 400, "x-data-parallel-rank"},
		{chat, `{"x":"` + strings.Repeat("a", 500) + `"}`, "", 413, "too large"},
		{text, `{}`, "", 400, "prompt is missing"},
		{text, `{"prompt":""}`, "", 400, "prompt: must not be empty"},
		{text, `{"prompt":[]}`, "", 400, "prompt: must not be empty"},
		{text, `{"prompt":[[]]}`, "", 400, "prompt: must not be empty"},
		{text, `{"prompt":["a","b"]}`, "", 400, "prompt: at most 1"},
		{text, `{"prompt":[-1]}`, "", 400, "prompt: token ids must be 0 to 2147483647"},
		{text, `{"prompt":[2147483648]}`, "", 400, "prompt: token ids"},
		{text, `{"prompt":[1.5]}`, "", 400, "prompt: must be"},
		{text, `{"prompt":{}}`, "", 400, "prompt: must be"},
		{text, `{"prompt":[` + strings.Repeat("1,", 32) + `1]}`, "", 400, "prompt: more than 32 tokens"},
		{text, `{"prompt":[` + strings.Repeat("1,", 31) + `1]}`, "", 400, "maximum context length"},
		{"/tokenize", `{}`, "", 400, "prompt or messages is missing"},
		{"/tokenize", `{"model":"x","prompt":"a"}`, "", 404, "does not exist"},
		{"/detokenize", `{}`, "", 400, "tokens is missing"},
		{"/detokenize", `{"tokens":[0]}`, "", 400, "0 is not in the vocabulary"},
		{"/v1/embeddings", `{}`, "", 400, "input is missing"},
		{"/v1/embeddings", `{"input":"a","encoding_format":"int8"}`, "", 400, "encoding_format"},
		{"/v1/responses", `{}`, "", 404, "this worker has no POST /v1/responses"},
		{"/health", ``, "", 404, "no POST /health"},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{"X-data-parallel-rank", c.header}
		}
		rec := ask(t, w.Handler(), "POST", c.path, c.body, headers...)
		var got errorBody
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s %s: %v: %s", c.path, c.body, err, rec.Body)
		}
		wantType := map[int]string{400: "BadRequestError", 404: "NotFoundError", 413: "RequestEntityTooLargeError"}[c.status]
		e := got.Error
		if rec.Code != c.status || e.Code != c.status || e.Type != wantType || !strings.Contains(e.Message, c.message) {
			t.Errorf("%s %s (rank %q): %d %s, want %d %q", c.path, c.body, c.header, rec.Code, rec.Body, c.status, c.message)
		}
	}
	if running, waiting, usage := w.busy(0); running != 0 || waiting != 0 || usage != 0 {
		t.Errorf("%d running, %d waiting, usage %v", running, waiting, usage)
	}
}

func TestTwoRankHeadersAreRefused(t *testing.T) {
	h := newWorker(t, Config{Ranks: 2}).Handler()
	rec := ask(t, h, "POST", "/v1/completions", `{"prompt":"x"}`, "X-data-parallel-rank", "0", "X-data-parallel-rank", "1")
	if rec.Code != 400 {
		t.Errorf("status %d", rec.Code)
	}
}

func TestEncodedBodiesAreRefused(t *testing.T) {
	w := newWorker(t, Config{})
	rec := ask(t, w.Handler(), "POST", "/v1/completions", "\x1f\x8b", "Content-Encoding", "gzip")
	if rec.Code != http.StatusUnsupportedMediaType {
		t.Errorf("status %d", rec.Code)
	}
	if got := w.Requests(); len(got) != 1 || got[0].BodyBytes != 2 {
		t.Errorf("remembered %+v", got)
	}
}

func TestFailuresAreSpreadEvenly(t *testing.T) {
	for _, c := range []struct {
		rate float64
		want string
	}{
		{0, "........"}, {1, "xxxxxxxx"}, {0.5, ".x.x.x.x"}, {0.25, "...x...x"}, {0.75, ".xxx.xxx"},
	} {
		w := newWorker(t, Config{FailRate: c.rate})
		var got strings.Builder
		for range 8 {
			rec := ask(t, w.Handler(), "POST", "/v1/completions", `{"prompt":"x","stream":true}`)
			switch rec.Code {
			case 200:
				got.WriteByte('.')
			case 500:
				got.WriteByte('x')
			}
		}
		if got.String() != c.want {
			t.Errorf("rate %v: %s, want %s", c.rate, got.String(), c.want)
		}
	}
}

func TestConfigMistakesComeAllAtOnce(t *testing.T) {
	_, err := New(Config{
		Name: "a b", Models: []string{"m", ""}, Adapters: []string{"m"}, Ranks: -1, FirstToken: -1, PerToken: -1,
		BlockSize: -1, CacheBlocks: 1 << 30, FailRate: 1.5, MaxBodyBytes: -1, Drain: -1, Tokens: -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"name", "is empty", `"m" is there twice`, "ranks -1", "first token", "per token",
		"block size -1", "cache blocks", "fail rate 1.5", "max body bytes", "drain", "tokens -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}
