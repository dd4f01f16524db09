package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a file that is read.
const maxFile = 16 << 20

// document parses data into the tree of its one document; nil is an empty one.
// Only syntax is judged here.
func document(name string, data []byte) (*yaml.Node, error) {
	if len(data) > maxFile {
		return nil, Problems{{File: name, Text: "is larger than 16 MiB; a configuration is a few kilobytes"}}
	}
	if line := firstUnreadable(data); line != 0 {
		return nil, Problems{{File: name, Line: line, Text: "holds bytes that are not text; save the file as UTF-8 without control characters"}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, Problems{syntaxProblem(name, data, err)}
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, Problems{{File: name, Line: second.Line, Text: "a second document begins; keep one in the file"}}
	case !errors.Is(err, io.EOF):
		return nil, Problems{syntaxProblem(name, data, err)}
	}
	if len(doc.Content) == 0 || isNull(doc.Content[0]) {
		return nil, nil
	}
	return doc.Content[0], nil
}

// firstUnreadable returns the line of the first byte that is not UTF-8, or of a
// character that YAML 1.2, section 5.1, does not allow in a file; 0 if there is
// none.
func firstUnreadable(data []byte) (line int) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for line = 1; len(data) > 0; {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 || !isPrintable(r) {
			return line
		}
		if r == '\n' {
			line++
		}
		data = data[size:]
	}
	return 0
}

func isPrintable(r rune) bool {
	switch {
	case r < 0x20:
		return r == '\t' || r == '\n' || r == '\r'
	case r < 0xA0:
		return r < 0x7F || r == 0x85
	}
	return r != 0xFEFF && r != 0xFFFE && r != 0xFFFF
}

var (
	errorLine     = regexp.MustCompile(`^line (\d+): `)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
	// What the parser, unlike the scanner, complains of is numbered from 0.
	fromZero = regexp.MustCompile(`^(did not find expected (<|node content|'-'|key|',')|found (undefined tag|duplicate %|incompatible YAML))`)
)

// syntaxProblem makes a problem of the parser's "yaml: line 3: text". It counts
// lines from 1 or from 0, leaves the first line out, and that of an alias.
func syntaxProblem(name string, data []byte, err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := errorLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1]) // the pattern lets only digits through; 0 if they overflow
		text = text[len(m[0]):]
		if fromZero.MatchString(text) {
			line++
		}
	} else if m := unknownAnchor.FindStringSubmatch(text); m != nil {
		before, _, _ := bytes.Cut(data, []byte("*"+m[1]))
		line = 1 + bytes.Count(before, []byte("\n"))
	}
	return Problem{File: name, Line: max(1, line), Text: "is not YAML: " + oneLine(text) + "; mend this first, the rest was not looked at"}
}

// oneLine keeps foreign text from breaking a message into lines.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kindOf says what a value is, for messages.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!str":
		return "text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "nothing"
	case "!!timestamp":
		return "a date"
	}
	return "of type " + shorten(n.Tag)
}

// keyName is a key in a message: as it is if it looks like one, else quoted.
func keyName(s string) string {
	for _, r := range s {
		if notInHostName(r) && r != '.' {
			return quote(s)
		}
	}
	return shorten(s)
}

// quote quotes a value for a message and shortens a long one.
func quote(s string) string { return strconv.Quote(shorten(s)) }

func shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
