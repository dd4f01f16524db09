package routing

import (
	"context"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"mooring/internal/fleet"
	"mooring/internal/tokenizer"
	"mooring/kvstate/blockhash"
	"mooring/kvstate/index"
)

// Where a prompt's tokens come from, in order of preference.
const (
	sourcePrompt    = "prompt"     // the body's prompt is an array of token ids
	sourceTokenData = "token_data" // the body's nvext.token_data is
	sourceTokenizer = "tokenizer"  // a tokenizer was asked
)

// Why a prompt's tokens are not known. Those of the tokenizer are "tokenizer_"
// and its outcome.
const (
	problemNoBody      = "no_body"       // the request has none, or it was not passed on
	problemUnreadable  = "unreadable"    // the body is no JSON object, or is encoded in a way not known here
	problemAmbiguous   = "ambiguous"     // a field of the prompt is there twice
	problemNoPrompt    = "no_prompt"     // the body has no prompt in a form known here
	problemNoTokenizer = "no_tokenizer"  // no token ids, and nobody may be asked for them
	problemTokenizer   = "tokenizer_"    // and the outcome
	problemTooLong     = "too_long"      // text that takes longer to tokenize than anybody waits
	problemEmptyPrompt = "empty_prompt"  // there are no tokens in it
	problemUnasked     = "no_kv_state"   // the partition has no KV state: nothing would come of it
	problemNoChoice    = "not_requested" // the choice does not depend on the prompt
)

// maxTokenized bounds the text that a tokenizer is asked about, in bytes: some
// hundred thousand tokens, or an image that counts for nothing here.
const maxTokenized = 2 << 20

// maxPromptBlocks bounds how many blocks of a prompt are looked up and remembered.
// What comes after them counts as prompt work that nobody holds.
const maxPromptBlocks = 16384

// prompt is a request's prompt in blocks. It is known if tokens > 0.
type prompt struct {
	tokens   int
	blocks   int      // the incomplete one at the end included
	local    []uint64 // hashes of the complete blocks, if the index has plain windows; scratch
	eagle    []uint64 // the same for Eagle windows
	sequence []uint64 // of one of these, each with all before it; kept by who counts the request
	source   string   // if it is known
	problem  string   // if it is not
}

func (p *prompt) known() bool { return p.tokens > 0 }

// readPrompt turns a request's prompt into blocks as where has them. It waits for
// the tokenizer at most, within that one's deadline and ctx.
func (r *Router) readPrompt(ctx context.Context, view *fleet.View, w *wish, where residency, into *prompt) {
	req := w.req
	tokens, source, problem := r.tokens(ctx, view, w)
	if problem == "" && len(tokens) == 0 {
		problem = problemEmptyPrompt
	}
	if problem != "" {
		into.problem = problem
		return
	}
	into.source, into.tokens = source, len(tokens)
	salt, _ := req.prompt.text(fieldCacheSalt)
	into.cut(tokens, where, blockhash.Seed(adapterOf(view, req), salt))
}

// cut makes tokens into blocks.
func (p *prompt) cut(tokens []uint32, where residency, seed uint64) {
	size := where.blockSize
	if p.blocks = (len(tokens) + size - 1) / size; p.blocks > maxPromptBlocks {
		tokens = tokens[:maxPromptBlocks*size]
	}
	p.local, p.eagle = p.local[:0], p.eagle[:0]
	if where.windows&index.Plain != 0 {
		p.local = blockhash.Append(p.local, tokens, size, seed)
	}
	if where.windows&index.Eagle != 0 {
		p.eagle = blockhash.AppendEagle(p.eagle, tokens, size, seed)
	}
	one := p.local
	if len(one) == 0 {
		one = p.eagle
	}
	p.sequence = blockhash.Sequence(nil, one)
}

// tokens returns the prompt's tokens and where they came from, or what is in the
// way. Without a problem there may still be none.
func (r *Router) tokens(ctx context.Context, view *fleet.View, w *wish) (tokens []uint32, source, problem string) {
	f := w.req.prompt
	switch {
	case w.req.unreadable != nil:
		return nil, "", problemUnreadable
	case f == nil:
		return nil, "", problemNoBody
	case f.twice:
		return nil, "", problemAmbiguous
	}
	if _, ok := f.text(fieldCacheSalt); !ok {
		return nil, "", problemUnreadable
	}
	if ids := f.values[fieldPrompt]; ids != nil && ids.Kind() == '[' {
		if tokens, err := tokenIDs(ids); err == nil {
			return tokens, sourcePrompt, ""
		}
	}
	ids, twice := f.tokenData()
	if twice {
		return nil, "", problemAmbiguous
	}
	if ids != nil {
		if tokens, err := tokenIDs(ids); err == nil {
			return tokens, sourceTokenData, ""
		}
	}
	return r.askTokenizer(ctx, view, w)
}

// askTokenizer has the prompt's text turned into tokens.
func (r *Router) askTokenizer(ctx context.Context, view *fleet.View, w *wish) (tokens []uint32, source, problem string) {
	p, req := w.partition, w.req
	switch {
	case r.cfg.Tokenizer == nil:
		return nil, "", problemNoTokenizer
	case req.prompt.size() > maxTokenized:
		return nil, "", problemTooLong
	}
	chat, ok := req.prompt.asChat()
	if !ok {
		return nil, "", problemNoPrompt
	}
	fields, ok := chat.tokenizable()
	if !ok {
		return nil, "", problemNoPrompt
	}
	model := req.modelName()
	if q, known := view.PartitionOf(p.Group, model); !known || q != p {
		model = p.Model
	}
	body := chat.tokenizeRequest(model, fields)
	tokens, outcome := r.cfg.Tokenizer.Tokens(ctx, r.tokenizers(view, p, w.key), p.String(), body)
	if outcome != tokenizer.OK && outcome != tokenizer.Cached {
		return nil, "", problemTokenizer + outcome.String()
	}
	return tokens, sourceTokenizer, ""
}

// Fields that /tokenize takes, of a chat and of a completion.
var (
	chatFields = []promptField{
		fieldMessages, fieldTools, fieldAddGenerationPrompt, fieldContinueFinalMessage, fieldAddSpecialTokens,
		fieldChatTemplate, fieldChatTemplateKwargs, fieldMMProcessorKwargs,
	}
	completionFields = []promptField{fieldPrompt, fieldAddSpecialTokens}
)

// tokenizable returns the fields of which /tokenize makes the prompt that the
// worker will see, of a chat or a completion. False if f is neither.
func (f *promptFields) tokenizable() ([]promptField, bool) {
	messages, text := f.values[fieldMessages], f.values[fieldPrompt]
	switch {
	case messages != nil:
		return chatFields, messages.Kind() == '['
	default:
		return completionFields, text != nil && text.Kind() == '"'
	}
}

// size returns how long the fields are in sum.
func (f *promptFields) size() (n int) {
	for _, value := range f.values {
		n += len(value)
	}
	return n
}

// tokenizeRequest is the body for /tokenize:
//
//	{"model":"m","messages":[{"role":"user","content":"hi"}],"add_generation_prompt":true}
func (f *promptFields) tokenizeRequest(model string, fields []promptField) []byte {
	b := append(make([]byte, 0, 2*len(model)+256+f.size()), `{"model":`...)
	b, _ = jsontext.AppendQuote(b, model) // an error says that it is not UTF-8; what is written is
	for _, field := range fields {
		value := f.values[field]
		if value == nil && field == fieldAddGenerationPrompt {
			value = jsontext.Value("true")
		}
		if value == nil {
			continue
		}
		b = append(append(append(b, `,"`...), promptFieldNames[field]...), `":`...)
		b = append(b, value...)
	}
	return append(b, '}')
}

// tokenizers yields whom to ask: who is configured, or else the live workers of
// the partition, beginning with another one for each key.
func (r *Router) tokenizers(view *fleet.View, p fleet.Partition, key string) iter.Seq[string] {
	members, first := view.Members(p), hashString(key)
	return func(yield func(string) bool) {
		if r.cfg.TokenizerURL != "" {
			yield(r.cfg.TokenizerURL)
			return
		}
		for i := range members {
			w := members[(first+uint64(i))%uint64(len(members))]
			if w.Schedulable() && w.Address != "" && !yield("http://"+w.Address+"/tokenize") {
				return
			}
		}
	}
}

// adapterOf returns the adapter that a request names; "" for none.
func adapterOf(view *fleet.View, req *Request) string {
	name := req.modelName()
	if p, ok := view.PartitionOf(req.Group, name); ok && p.Model != name {
		return name
	}
	return ""
}
