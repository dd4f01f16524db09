package config

import "strings"

// restartOnly reports whether a change of the key is taken up only by a
// restart.
func restartOnly(path string) bool {
	return path != "workers.static" && path != "replication.peers" && !strings.HasPrefix(path, "workers.health.")
}

// NeedRestart names the keys whose values differ between two configurations
// and are read only at the start, in the order of the file. The static workers,
// how workers are probed and the peers change live; so does what the workers
// file holds, but not which file that is.
func NeedRestart(old, new *Config) []string {
	var paths []string
	for _, k := range fileSchema().keys {
		if restartOnly(k.path) && !k.same(old, new) {
			paths = append(paths, k.path)
		}
	}
	return paths
}
