package simworker

import (
	"errors"
	"strings"
)

// A token is the id of a piece of text or of a mark of the chat template,
// below 2^31 so that every consumer's signed 32-bit field can hold it.
//
// A piece is 1 to 3 bytes, and its id is those bytes behind a leading 1:
// " of" is 0x01206f66. So ids are the same in every process, and text comes
// back from them exactly, without a vocabulary. Ids below 0x100 are marks.
type token = uint32

// maxToken bounds the ids that a client may send as a prompt.
const maxToken = 1<<31 - 1

// The marks of the chat template.
const (
	markBegin token = 1 + iota
	markTools
	markSystem
	markDeveloper
	markUser
	markAssistant
	markTool
	markOther // a role of the client's own; its name follows
	markCalls // tool calls of the assistant follow, as JSON
	markEnd
)

// pieceBytes is the longest piece. Three bytes and the leading 1 stay below
// 2^31; four would not.
const pieceBytes = 3

// errTooManyTokens says that a text has more tokens than the caller allows.
var errTooManyTokens = errors.New("too many tokens")

// appendText appends the tokens of text to dst, or returns errTooManyTokens
// once dst would grow beyond limit.
//
// Text is cut from the left into runs of letters and digits, of punctuation,
// or of white space; a blank goes with the run that follows it; runs are cut
// again after pieceBytes. What follows a text changes none of its tokens but
// the last, so that a longer prompt repeats a shorter one's blocks.
func appendText(dst []token, text string, limit int) ([]token, error) {
	for len(text) > 0 {
		if len(dst) >= limit {
			return nil, errTooManyTokens
		}
		n := pieceLen(text)
		id := token(1)
		for i := range n {
			id = id<<8 | token(text[i])
		}
		dst = append(dst, id)
		text = text[n:]
	}
	return dst, nil
}

// pieceLen returns the length of the first piece of a text that is not empty.
func pieceLen(text string) int {
	n := 0
	if text[0] == ' ' && len(text) > 1 && classOf(text[1]) != classSpace {
		n = 1
	}
	class := classOf(text[n])
	for n++; n < min(len(text), pieceBytes) && classOf(text[n]) == class; n++ {
	}
	return n
}

type byteClass uint8

const (
	classWord  byteClass = iota // letters, digits, and every byte of a rune beyond ASCII
	classPunct                  // printable ASCII of other kinds, and control bytes
	classSpace                  // blank, tab, line ends
)

func classOf(b byte) byteClass {
	switch {
	case b == ' ' || b == '\t' || b == '\n' || b == '\r':
		return classSpace
	case b >= 0x80, '0' <= b && b <= '9', 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
		return classWord
	}
	return classPunct
}

// tokenText returns the text of one token, and false for an id that the
// tokenizer never gives.
func tokenText(id token) (string, bool) {
	switch {
	case id < 0x100:
		return markText(id)
	case id>>8 == 1:
		return string([]byte{byte(id)}), true
	case id>>16 == 1:
		return string([]byte{byte(id >> 8), byte(id)}), true
	case id>>24 == 1:
		return string([]byte{byte(id >> 16), byte(id >> 8), byte(id)}), true
	}
	return "", false
}

func markText(id token) (string, bool) {
	switch id {
	case markBegin:
		return "<|begin|>", true
	case markTools:
		return "<|tools|>", true
	case markSystem:
		return "<|system|>", true
	case markDeveloper:
		return "<|developer|>", true
	case markUser:
		return "<|user|>", true
	case markAssistant:
		return "<|assistant|>", true
	case markTool:
		return "<|tool|>", true
	case markOther:
		return "<|role|>", true
	case markCalls:
		return "<|calls|>", true
	case markEnd:
		return "<|end|>", true
	}
	return "", false
}

// tokensText returns the text of tokens, and the first id that has none.
func tokensText(tokens []token) (text string, unknown token, ok bool) {
	var b strings.Builder
	for _, id := range tokens {
		piece, known := tokenText(id)
		if !known {
			return "", id, false
		}
		b.WriteString(piece)
	}
	return b.String(), 0, true
}
