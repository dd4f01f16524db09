package config

import (
	"fmt"
	"strings"
)

// suggest says which key was probably meant: a similar one of the same section,
// else the same name in another section, else the list of what there is.
func (s *schema[C]) suggest(section, name string) string {
	if above, leaf := splitPath(name); s.leaves[name] != nil && above != "" {
		return fmt.Sprintf("keys nest: write %q under %q", leaf+":", above+":")
	}
	names := s.children[section]
	if near := nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	for i := range s.keys {
		if _, leaf := splitPath(s.keys[i].path); leaf == name {
			return "did you mean " + s.keys[i].path + "?"
		}
	}
	return "known here are " + strings.Join(names, ", ")
}

// nearest returns the name with the fewest edits from word, "" if none is near.
func nearest(word string, names []string) string {
	const longest = 64 // beyond it nobody mistyped one of our keys
	if len(word) > longest {
		return ""
	}
	word = strings.ReplaceAll(strings.ToLower(word), "-", "_")
	best, fewest := "", 0
	for _, name := range names {
		if d := edits(word, name); d <= (len(name)+2)/3 && (best == "" || d < fewest) {
			best, fewest = name, d
		}
	}
	return best
}

// edits returns the Levenshtein distance of two short words, in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
