package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxValues bounds how many values one file may hold once its aliases are
// expanded, so that a small file cannot mean a huge one.
const maxValues = 2_000_000

// maxProblems bounds what one file can make Mooring say.
const maxProblems = 1000

// maxMerges bounds how deep "<<" may be nested, and so ends a cycle of them.
const maxMerges = 8

// key is one leaf of a file that describes a C: where it stands and how its
// value is read. at is the full path, for messages.
type key[C any] struct {
	path string
	read func(r *reader, at string, n *yaml.Node, c *C)
	same func(a, b *C) bool
}

// schema is all keys of a C, with the sections that they stand in.
type schema[C any] struct {
	keys     []key[C]
	leaves   map[string]*key[C]
	children map[string][]string // section -> the names in it, in the table's order; "" is the root
}

func newSchema[C any](keys []key[C]) *schema[C] {
	s := &schema[C]{keys: keys, leaves: make(map[string]*key[C]), children: make(map[string][]string)}
	for i := range keys {
		path := keys[i].path
		s.leaves[path] = &keys[i]
		for path != "" {
			section, name := splitPath(path)
			if !slices.Contains(s.children[section], name) {
				s.children[section] = append(s.children[section], name)
			}
			path = section
		}
	}
	return s
}

func splitPath(path string) (section, name string) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

func joinPath(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}

// reader collects what is wrong with one file.
type reader struct {
	name     string
	problems Problems
	lines    map[string]int // full path of each key that is set, sections aside -> its line
	values   int            // seen so far, aliases expanded
	unsaid   int            // problems beyond maxProblems
}

func newReader(name string) *reader { return &reader{name: name, lines: make(map[string]int)} }

func (r *reader) wrong(line int, at, text string) {
	if at != "" {
		text = at + ": " + text
	}
	r.add(Problem{File: r.name, Line: line, Text: text})
}

func (r *reader) add(problems ...Problem) {
	for _, p := range problems {
		if len(r.problems) < maxProblems {
			r.problems = append(r.problems, p)
		} else {
			r.unsaid++
		}
	}
}

// err returns all problems, nil if there are none.
func (r *reader) err() error {
	err := r.problems.orNil()
	if r.unsaid > 0 {
		return append(r.problems, Problem{File: r.name, Text: fmt.Sprintf("has %d more problems; mend these first", r.unsaid)})
	}
	return err
}

// full reports whether the file held too many values and is not read on.
func (r *reader) full() bool { return r.values > maxValues }

// value follows an alias and counts. It returns nil once the file has held too
// many values, which is reported once.
func (r *reader) value(n *yaml.Node) *yaml.Node {
	if r.values++; r.values > maxValues {
		if r.values == maxValues+1 {
			r.wrong(n.Line, "", fmt.Sprintf("more than %d values, aliases expanded; split the file or use fewer aliases", maxValues))
		}
		return nil
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.ShortTag(), "!!") {
		r.wrong(n.Line, "", "the tag "+quote(n.Tag)+" means nothing here; leave it out")
	}
	return n
}

// entry is one key of a mapping with its value.
type entry struct {
	name string
	line int
	node *yaml.Node
}

// entries lists a mapping's keys, each once: a doubled key is reported, and a
// key of the mapping itself wins over one that "<<" brings in.
func (r *reader) entries(at string, n *yaml.Node, merges int) []entry {
	var own, merged []entry
	first := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := r.value(n.Content[i]), n.Content[i+1]
		switch {
		case k == nil:
			return own
		case k.Kind != yaml.ScalarNode:
			r.wrong(n.Content[i].Line, at, "a key is "+kindOf(k)+"; a key is a plain word")
		case k.ShortTag() == "!!merge":
			merged = append(merged, r.merge(at, v, merges+1)...)
		case first[k.Value] != 0:
			r.wrong(n.Content[i].Line, joinPath(at, keyName(k.Value)),
				fmt.Sprintf("is set twice, first in line %d; keep one", first[k.Value]))
		default:
			first[k.Value] = n.Content[i].Line
			own = append(own, entry{k.Value, n.Content[i].Line, v})
		}
	}
	for _, e := range merged {
		if first[e.name] == 0 {
			first[e.name] = e.line
			own = append(own, e)
		}
	}
	return own
}

// merge returns the keys that "<<: *alias" or "<<: [*a, *b]" brings in; of two
// that bring the same key the first counts, as entries makes sure.
func (r *reader) merge(at string, n *yaml.Node, merges int) []entry {
	target := r.value(n)
	switch {
	case target == nil:
		return nil
	case merges > maxMerges:
		r.wrong(n.Line, at, fmt.Sprintf("<< is nested more than %d deep; write the keys out", maxMerges))
		return nil
	case target.Kind == yaml.MappingNode:
		return r.entries(at, target, merges)
	case target.Kind == yaml.SequenceNode:
		var all []entry
		for _, item := range target.Content {
			all = append(all, r.merge(at, item, merges+1)...)
		}
		return all
	}
	r.wrong(n.Line, at, "<< is "+kindOf(target)+"; it takes a mapping, as in \"<<: *name\"")
	return nil
}

// readSection reads the mapping n as one section of c. section is its path in
// the schema, at its full path.
func readSection[C any](r *reader, s *schema[C], section, at string, n *yaml.Node, c *C) {
	line := n.Line
	switch n = r.value(n); {
	case n == nil || isNull(n): // a heading with nothing under it
		return
	case n.Kind != yaml.MappingNode:
		r.wrong(line, at, fmt.Sprintf("is %s; it takes a mapping of %s", kindOf(n), strings.Join(s.children[section], ", ")))
		return
	}
	for _, e := range r.entries(at, n, 0) {
		path, full := joinPath(section, e.name), joinPath(at, e.name)
		leaf, isLeaf := s.leaves[path]
		_, isSection := s.children[path]
		switch {
		case strings.Contains(e.name, ".") || !isLeaf && !isSection:
			r.wrong(e.line, joinPath(at, keyName(e.name)), "is no key; "+s.suggest(section, e.name))
		case isSection:
			readSection(r, s, path, full, e.node, c)
		default:
			r.lines[full] = e.line
			if v := r.value(e.node); v != nil {
				leaf.read(r, full, v, c)
			}
		}
	}
}
