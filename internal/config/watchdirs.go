package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks is how many symbolic links are followed; Linux gives up there too.
const maxLinks = 40

// decidingDirs returns the directories in which an event can change what the
// absolute path means or holds: that of the file, that of each symbolic link on
// the way, and, where something is missing, the last directory that exists.
// None of them is named through a link, so each directory has one name.
func decidingDirs(path string) []string {
	var dirs []string
	add := func(dir string) {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	at, rest, links := "/", components(path), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			add(at)
			return dirs
		}
		if info.Mode()&os.ModeSymlink != 0 {
			add(at)
			target, err := os.Readlink(next)
			if links++; err != nil || links > maxLinks {
				return dirs
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = slices.Concat(components(target), rest)
			continue
		}
		if len(rest) == 0 {
			add(at)
		}
		at = next
	}
	return dirs
}

func components(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}
