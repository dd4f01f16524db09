// Package config reads Mooring's one configuration file and the workers file
// beside it.
//
// It decides what a file may say, nothing more: an unknown key, a value of the
// wrong type or out of its range, and values that contradict each other are
// all found in one pass and reported together as Problems, each with its file
// and line and what would be right. What a value means is the business of the
// package that it configures.
//
// Values are plain data. A Config is not changed after it was returned, so any
// number of goroutines may read it.
//
// Watch tells when a file has changed on disk. It knows how editors, renames
// and Kubernetes volumes replace files.
package config
