package config

import (
	"bytes"
	"errors"
	"fmt"
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
	if line := firstInvalidUTF8(data); line != 0 {
		return nil, Problems{{File: name, Line: line, Text: "is not UTF-8; save the file as UTF-8"}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, Problems{syntaxProblem(name, err)}
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, Problems{{File: name, Line: second.Line, Text: "a second document begins; keep one in the file"}}
	case !errors.Is(err, io.EOF):
		return nil, Problems{syntaxProblem(name, err)}
	}
	if len(doc.Content) == 0 || isNull(doc.Content[0]) {
		return nil, nil
	}
	return doc.Content[0], nil
}

func firstInvalidUTF8(data []byte) (line int) {
	if utf8.Valid(data) {
		return 0
	}
	line = 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		data = data[size:]
	}
	return line
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// syntaxProblem takes the line out of the parser's "yaml: line 3: text".
func syntaxProblem(name string, err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{File: name}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		p.Line, _ = strconv.Atoi(m[1]) // the pattern lets only digits through; 0 if they overflow
		text = text[len(m[0]):]
	}
	p.Text = fmt.Sprintf("is not YAML: %s; mend this first, the rest was not looked at", oneLine(text))
	return p
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
