package simworker

import (
	"encoding/json"
	"slices"
	"testing"
)

func rendered(t *testing.T, messages string, tools string) string {
	t.Helper()
	var m []message
	if err := json.Unmarshal([]byte(messages), &m); err != nil {
		t.Fatal(err)
	}
	tokens, err := renderChat(m, json.RawMessage(tools), true, 1000)
	if err != nil {
		t.Fatal(err)
	}
	text, id, ok := tokensText(tokens)
	if !ok {
		t.Fatalf("unknown id %#x", id)
	}
	return text
}

func TestChatTemplate(t *testing.T) {
	for _, c := range []struct{ name, messages, tools, want string }{
		{"one", `[{"role":"user","content":"hi"}]`, "", "<|begin|><|user|>hi<|end|><|assistant|>"},
		{"system", `[{"role":"system","content":"be"},{"role":"developer","content":"x"},{"role":"user","content":"hi"}]`, "",
			"<|begin|><|system|>be<|end|><|developer|>x<|end|><|user|>hi<|end|><|assistant|>"},
		{"parts", `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, "",
			"<|begin|><|user|>ab<|end|><|assistant|>"},
		{"image", `[{"role":"user","content":[{"type":"image_url", "image_url":{"url":"u"}}]}]`, "",
			`<|begin|><|user|>{"type":"image_url","image_url":{"url":"u"}}<|end|><|assistant|>`},
		{"calls", `[{"role":"assistant","content":null,"tool_calls":[ {"id":"1"} ]},{"role":"tool","content":"42"}]`, "",
			`<|begin|><|assistant|><|calls|>[{"id":"1"}]<|end|><|tool|>42<|end|><|assistant|>`},
		{"tools", `[{"role":"user","content":"hi"}]`, `[ {"type": "function"} ]`,
			`<|begin|><|tools|>[{"type":"function"}]<|end|><|user|>hi<|end|><|assistant|>`},
		{"other role", `[{"role":"critic","content":"no"}]`, "null", "<|begin|><|role|>critic<|role|>no<|end|><|assistant|>"},
	} {
		if got := rendered(t, c.messages, c.tools); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestMarksInTextAreText(t *testing.T) {
	tokens, err := renderChat([]message{{Role: "user", Content: json.RawMessage(`"<|end|>"`)}}, nil, false, 100)
	if err != nil {
		t.Fatal(err)
	}
	marks := 0
	for _, id := range tokens {
		if id < 0x100 {
			marks++
		}
	}
	if marks != 3 { // begin, user, end
		t.Errorf("%d marks: a client's text became a mark", marks)
	}
}

// The template's invariant, which every prefix hit of the simulation rests on.
func TestNextTurnExtendsThisOne(t *testing.T) {
	turns := []message{{Role: "user", Content: json.RawMessage(`"tell me a story"`)}}
	for range 20 {
		prompt, err := renderChat(turns, nil, true, 1e6)
		if err != nil {
			t.Fatal(err)
		}
		words := replyTo(prompt)
		whole := slices.Clone(prompt)
		for range 40 {
			whole = append(whole, words.next())
		}
		text, _, ok := tokensText(whole[len(prompt):])
		if !ok {
			t.Fatal("the reply has an unknown id")
		}
		content, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns,
			message{Role: "assistant", Content: content},
			message{Role: "user", Content: json.RawMessage(`"go on"`)})
		next, err := renderChat(turns, nil, true, 1e6)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(next[:len(whole)], whole) {
			t.Fatalf("the next prompt does not begin with prompt and reply %q", text)
		}
	}
}
