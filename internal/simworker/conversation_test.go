package simworker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// talk is a client that keeps a conversation.
type talk struct {
	handler  http.Handler
	headers  []string
	messages []map[string]string
}

// say adds a user message, sends the conversation, and keeps the reply.
func (c *talk) say(t *testing.T, text string) usage {
	t.Helper()
	c.messages = append(c.messages, map[string]string{"role": "user", "content": text})
	body, err := json.Marshal(map[string]any{"messages": c.messages})
	if err != nil {
		t.Fatal(err)
	}
	got := decode[completionBody](t, ask(t, c.handler, "POST", "/v1/chat/completions", string(body), c.headers...))
	c.messages = append(c.messages, map[string]string{"role": "assistant", "content": *got.Choices[0].Message.Content})
	return *got.Usage
}

func (c *talk) expect(t *testing.T, text string, prompt, cached int) {
	t.Helper()
	u := c.say(t, text)
	if u.PromptTokens != prompt || u.Details.CachedTokens != cached {
		t.Errorf("turn %d: %d prompt tokens, %d cached; want %d and %d",
			len(c.messages)/2, u.PromptTokens, u.Details.CachedTokens, prompt, cached)
	}
}

// Blocks of 4, replies of 5 tokens. "hi you" is hi, yo, u: 3 tokens; a turn
// adds <|user|> 3 <|end|> <|assistant|> = 6, and before that the reply and its
// <|end|> = 6; the first one has <|begin|> on top.
//
//	turn  prompt            full blocks left behind: (prompt+5-1)/4    cached next
//	1     1+6 = 7           11/4 = 2                                   8
//	2     7+12 = 19         23/4 = 5                                   20
//	3     31                35/4 = 8                                   32
//	4     43                47/4 = 11                                  44
//
// Without the rule that the last token is never computed it would be 3, 6, 9.
func TestConversationReusesItsBlocks(t *testing.T) {
	w := newWorker(t, Config{BlockSize: 4, Tokens: 5})
	c := talk{handler: w.Handler()}
	c.expect(t, "hi you", 7, 0)
	c.expect(t, "hi you", 19, 8)
	c.expect(t, "hi you", 31, 20)
	c.expect(t, "hi you", 43, 32)

	f := scraped(t, w.Handler())
	for name, want := range map[string]float64{
		"vllm:prompt_tokens_total":        7 + 19 + 31 + 43,
		"vllm:prefix_cache_queries_total": 7 + 19 + 31 + 43,
		"vllm:prefix_cache_hits_total":    0 + 8 + 20 + 32,
		"vllm:generation_tokens_total":    4 * 5,
		"vllm:kv_cache_usage_perc":        0,
	} {
		if got := figure(t, f, name, "0"); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}

	// A worker that has never seen the conversation has nothing of it.
	other := talk{handler: newWorker(t, Config{BlockSize: 4, Tokens: 5}).Handler(), messages: c.messages}
	other.expect(t, "hi you", 55, 0)
}

func TestStreamedConversationReusesItsBlocks(t *testing.T) {
	w := newWorker(t, Config{BlockSize: 4, Tokens: 5})
	h := w.Handler()
	prompt := `{"role":"user","content":"hi you"}`
	for turn, cached := range []int{0, 8, 20, 32} {
		rec := ask(t, h, "POST", "/v1/chat/completions",
			`{"stream":true,"stream_options":{"include_usage":true},"messages":[`+prompt+`]}`)
		var reply strings.Builder
		chunks := eventsOf(t, rec.Body)
		for _, chunk := range chunks[:len(chunks)-1] {
			if text := chunk.Choices[0].Delta.Content; text != nil {
				reply.WriteString(*text)
			}
		}
		if got := chunks[len(chunks)-1].Usage.Details.CachedTokens; got != cached {
			t.Errorf("turn %d: %d cached, want %d", turn+1, got, cached)
		}
		prompt += fmt.Sprintf(`,{"role":"assistant","content":%q},{"role":"user","content":"hi you"}`, reply.String())
	}
}

func TestAtLeastOneTokenIsComputed(t *testing.T) {
	h := newWorker(t, Config{BlockSize: 4}).Handler()
	cached := func(prompt string) int {
		body := `{"prompt":` + prompt + `,"max_tokens":1}`
		return decode[completionBody](t, ask(t, h, "POST", "/v1/completions", body)).Usage.Details.CachedTokens
	}
	for _, c := range []struct {
		prompt string
		want   int
	}{
		{"[1,2,3,4,5,6,7,8]", 0},
		{"[1,2,3,4,5,6,7,8]", 4}, // two full blocks, but the last token is in the second
		{"[1,2,3,4,5,6,7,8,9]", 8},
		{"[1,2,3,4]", 0},
		{"[1,2,3,4,5,6,0,8,9]", 4},
		{"[2,2,3,4,5,6,7,8,9]", 0},
	} {
		if got := cached(c.prompt); got != c.want {
			t.Errorf("%s: %d cached, want %d", c.prompt, got, c.want)
		}
	}
}

// A rank of 5 blocks of 4: a conversation leaves 2 after its first turn (see
// above), so the third conversation pushes the first one out.
func TestOldestConversationIsEvicted(t *testing.T) {
	h := newWorker(t, Config{BlockSize: 4, Tokens: 5, CacheBlocks: 5}).Handler()
	ask1 := func(text string) int {
		body := `{"messages":[{"role":"user","content":"` + text + `"}]}`
		return decode[completionBody](t, ask(t, h, "POST", "/v1/chat/completions", body)).Usage.Details.CachedTokens
	}
	// The first block of 4 is <|begin|><|user|> and two tokens of the text, so
	// that the three share nothing. A prompt of 7 can reuse one block.
	for _, c := range []struct {
		text string
		want int
	}{
		{"a 1 ", 0}, {"a 1 ", 4}, {"b 1 ", 0}, {"a 1 ", 4}, {"c 1 ", 0}, {"b 1 ", 0}, {"c 1 ", 4}, {"a 1 ", 0},
	} {
		if got := ask1(c.text); got != c.want {
			t.Errorf("%q: %d cached, want %d", c.text, got, c.want)
		}
	}
}

func TestRanksHaveTheirOwnCaches(t *testing.T) {
	h := newWorker(t, Config{BlockSize: 4, Tokens: 5, Ranks: 2}).Handler()
	one := talk{handler: h, headers: []string{"X-data-parallel-rank", "1"}}
	one.expect(t, "hi you", 7, 0)
	one.expect(t, "hi you", 19, 8)
	zero := talk{handler: h, headers: []string{"x-data-parallel-rank", "0"}, messages: one.messages}
	zero.expect(t, "hi you", 31, 0)
	one.expect(t, "hi you", 31, 20)

	f := scraped(t, h)
	if zero, one := figure(t, f, "vllm:prefix_cache_hits_total", "0"), figure(t, f, "vllm:prefix_cache_hits_total", "1"); zero != 0 || one != 28 {
		t.Errorf("hits: rank 0 has %v, rank 1 has %v; want 0 and 28", zero, one)
	}
}

func TestAdaptersAndSaltsShareNothing(t *testing.T) {
	h := newWorker(t, Config{BlockSize: 4, Models: []string{"m", "alias"}, Adapters: []string{"lora"}}).Handler()
	for _, c := range []struct {
		more string
		want int
	}{
		{`"model":"m"`, 0},
		{`"model":"alias"`, 8},
		{`"model":"lora"`, 0},
		{`"model":"lora"`, 8},
		{`"model":"m","cache_salt":"s"`, 0},
		{`"model":"m","cache_salt":"s"`, 8},
		{`"model":"m"`, 8},
	} {
		body := `{"prompt":[1,2,3,4,5,6,7,8,9],"max_tokens":1,` + c.more + `}`
		got := decode[completionBody](t, ask(t, h, "POST", "/v1/completions", body)).Usage.Details.CachedTokens
		if got != c.want {
			t.Errorf("%s: %d cached, want %d", c.more, got, c.want)
		}
	}
}
