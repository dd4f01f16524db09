package simworker

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTextIsCutIntoPieces(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"a", []string{"a"}},
		{"hi you", []string{"hi", " yo", "u"}},
		{"hello, world!", []string{"hel", "lo", ",", " wo", "rld", "!"}},
		{"a  b", []string{"a", "  ", "b"}},
		{"a ", []string{"a", " "}},
		{" .x", []string{" .", "x"}},
		{"line\n\nnext", []string{"lin", "e", "\n\n", "nex", "t"}},
		{"été", []string{"\xc3\xa9t", "\xc3\xa9"}},
		{"\x00\xff", []string{"\x00", "\xff"}},
	} {
		tokens, err := appendText(nil, c.text, 100)
		if err != nil {
			t.Fatalf("%q: %v", c.text, err)
		}
		var pieces []string
		for _, id := range tokens {
			piece, ok := tokenText(id)
			if !ok || id > maxToken {
				t.Errorf("%q: id %#x, known %v", c.text, id, ok)
			}
			pieces = append(pieces, piece)
		}
		if diff := cmp.Diff(c.want, pieces); diff != "" {
			t.Errorf("%q: pieces (-want +got):\n%s", c.text, diff)
		}
	}
}

func TestIDsAreStable(t *testing.T) {
	tokens, err := appendText(nil, "a of", 100)
	if err != nil {
		t.Fatal(err)
	}
	if want := []token{0x0161, 0x01206f66}; !slices.Equal(tokens, want) {
		t.Errorf("tokens %#x, want %#x: these ids are recorded in other processes' caches", tokens, want)
	}
}

func TestTokenLimit(t *testing.T) {
	if got, err := appendText(nil, "a.b.", 4); err != nil || len(got) != 4 {
		t.Errorf("four tokens with limit 4: %d, %v", len(got), err)
	}
	if _, err := appendText(nil, "a.b.c", 4); !errors.Is(err, errTooManyTokens) {
		t.Errorf("five tokens with limit 4: error %v", err)
	}
}

func TestIDsOutsideTheVocabulary(t *testing.T) {
	for _, id := range []token{0, markEnd + 1, 0xff, 0x0200, 0x020000, 0x02000000, maxToken} {
		if text, ok := tokenText(id); ok {
			t.Errorf("id %#x has the text %q", id, text)
		}
	}
}

func FuzzTextComesBack(f *testing.F) {
	f.Add("hello, world", " and more")
	f.Add("été  \n\t", "\xf0\x9f\x98\x80")
	f.Fuzz(func(t *testing.T, text, more string) {
		tokens, err := appendText(nil, text, len(text))
		if err != nil {
			t.Fatalf("a text has more tokens than bytes: %v", err)
		}
		if back, id, ok := tokensText(tokens); !ok || back != text {
			t.Fatalf("%q came back as %q (unknown id %#x)", text, back, id)
		}
		longer, err := appendText(nil, text+more, len(text)+len(more))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(tokens) - 1; n > 0 && !slices.Equal(longer[:n], tokens[:n]) {
			t.Fatalf("%q followed by %q: more than the last token changed", text, more)
		}
	})
}
