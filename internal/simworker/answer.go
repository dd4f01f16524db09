package simworker

// shape is the kind of completion an answer belongs to.
type shape uint8

const (
	// chatShape is /v1/chat/completions.
	chatShape shape = iota
	// textShape is /v1/completions.
	textShape
)

func (s shape) idPrefix() string {
	if s == chatShape {
		return "chatcmpl-"
	}
	return "cmpl-"
}

// answer writes the JSON of one completion, whole or in chunks.
type answer struct {
	shape   shape
	id      string
	created int64 // Unix seconds
	model   string
}

// completionBody is a completion or one chunk of it:
//
//	{"id":"chatcmpl-sim-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,
//	 "message":{"role":"assistant","content":"The so"},"logprobs":null,"finish_reason":"stop"}],"usage":{..}}
//	{"id":"chatcmpl-sim-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,
//	 "delta":{"content":" so"},"logprobs":null,"finish_reason":null}]}
type completionBody struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message,omitempty"` // whole chat
	Delta        *chatMessage `json:"delta,omitempty"`   // chat chunk
	Text         *string      `json:"text,omitempty"`    // text completion, whole or chunk
	Logprobs     *struct{}    `json:"logprobs"`
	FinishReason *string      `json:"finish_reason"`
}

type chatMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

func (a *answer) body(object string, choices ...choice) completionBody {
	if choices == nil {
		choices = []choice{}
	}
	return completionBody{ID: a.id, Object: object, Created: a.created, Model: a.model, Choices: choices}
}

func (a *answer) chunk(choices ...choice) completionBody {
	if a.shape == chatShape {
		return a.body("chat.completion.chunk", choices...)
	}
	return a.body("text_completion", choices...)
}

// whole is the answer in one piece.
func (a *answer) whole(text string, how finish, u usage) completionBody {
	reason := how.String()
	var b completionBody
	if a.shape == chatShape {
		b = a.body("chat.completion", choice{Message: &chatMessage{Role: "assistant", Content: &text}, FinishReason: &reason})
	} else {
		b = a.body("text_completion", choice{Text: &text, FinishReason: &reason})
	}
	b.Usage = &u
	return b
}

// sendOpening sends the chunk that names the role; text completions have none.
func (a *answer) sendOpening(events *eventStream) error {
	if a.shape != chatShape {
		return nil
	}
	empty := ""
	return events.send(a.chunk(choice{Delta: &chatMessage{Role: "assistant", Content: &empty}}))
}

// delta is the chunk with the text of one token.
func (a *answer) delta(text string) completionBody {
	if a.shape == chatShape {
		return a.chunk(choice{Delta: &chatMessage{Content: &text}})
	}
	return a.chunk(choice{Text: &text})
}

// ending is the chunk with the finish reason.
func (a *answer) ending(how finish) completionBody {
	reason := how.String()
	if a.shape == chatShape {
		return a.chunk(choice{Delta: &chatMessage{}, FinishReason: &reason})
	}
	empty := ""
	return a.chunk(choice{Text: &empty, FinishReason: &reason})
}

// usage is the chunk without choices that stream_options.include_usage adds.
func (a *answer) usage(u usage) completionBody {
	b := a.chunk()
	b.Usage = &u
	return b
}
