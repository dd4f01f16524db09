package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mooring/internal/fleet"
)

// Bounds of a list of workers.
const (
	maxWorkers   = 65536
	maxModels    = 1024 // per worker
	maxRanks     = 4096
	maxBlockSize = 65536
)

// workerSchema is one entry of a list of workers.
func workerSchema() *schema[WorkerSpec] {
	return newSchema([]key[WorkerSpec]{
		leaf("address", func(w *WorkerSpec) *string { return &w.Address }, text[string](workerAddress)),
		listOf("models", 1, maxModels, func(w *WorkerSpec) *[]string { return &w.Models }, text[string](name)),
		listOf("adapters", 0, maxModels, func(w *WorkerSpec) *[]string { return &w.Adapters }, text[string](name)),
		leaf("routing_group", func(w *WorkerSpec) *string { return &w.RoutingGroup }, text[string](name)),
		leaf("ranks", func(w *WorkerSpec) *uint32 { return &w.Ranks }, integer[uint32](1, maxRanks)),
		leaf("id", func(w *WorkerSpec) *fleet.WorkerID { return &w.ID }, id[fleet.WorkerID]),
		leaf("drain", func(w *WorkerSpec) *bool { return &w.Drain }, boolean),
		leaf("kv_events", func(w *WorkerSpec) *string { return &w.KVEvents }, text[string](optional(tcpEndpoint("tcp://10.0.0.7:5557")))),
		leaf("kv_replay", func(w *WorkerSpec) *string { return &w.KVReplay }, text[string](optional(tcpEndpoint("tcp://10.0.0.7:5558")))),
		leaf("block_size", func(w *WorkerSpec) *int { return &w.BlockSize }, integer(0, maxBlockSize)),
	})
}

func workerListKey(path string, field func(*Config) *[]WorkerSpec) key[Config] {
	return key[Config]{
		path: path,
		read: func(r *reader, at string, n *yaml.Node, c *Config) { *field(c) = readWorkers(r, at, n) },
		same: func(a, b *Config) bool { return slices.EqualFunc(*field(a), *field(b), WorkerSpec.Equal) },
	}
}

// LoadWorkers reads the list of workers at path: a YAML list like
// workers.static; an empty file is an empty list. The error is Problems if the
// file could be read and was found wrong.
func LoadWorkers(path string) ([]WorkerSpec, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read workers: %w", err)
	}
	return ParseWorkers(path, data)
}

// ParseWorkers is LoadWorkers for content that is at hand. The name is for
// messages.
func ParseWorkers(name string, data []byte) ([]WorkerSpec, error) {
	root, err := document(name, data)
	if err != nil || root == nil {
		return nil, err
	}
	r := newReader(name)
	workers := readWorkers(r, "", root)
	if err := r.err(); err != nil {
		return nil, err
	}
	return workers, nil
}

// MergeWorkers returns the workers of both lists, in order. No two of them may
// have one address or one id, since Envoy tells them apart by the one and
// sessions by the other; the error is Problems that name both places.
func MergeWorkers(static, fromFile []WorkerSpec) ([]WorkerSpec, error) {
	all := slices.Concat(static, fromFile)
	if err := clashes(all).orNil(); err != nil {
		return nil, err
	}
	return all, nil
}

// readWorkers reads a list of workers and reports those that clash.
func readWorkers(r *reader, at string, n *yaml.Node) []WorkerSpec {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.wrong(n.Line, at, fmt.Sprintf("is %s; it takes a list of workers, as in [{address: 10.0.0.7:8000, models: [my-model]}]", kindOf(n)))
		return nil
	}
	if len(n.Content) > maxWorkers {
		r.wrong(n.Line, at, fmt.Sprintf("has %d workers; at most %d are allowed", len(n.Content), maxWorkers))
		return nil
	}
	s := workerSchema()
	var workers []WorkerSpec
	for i, item := range n.Content {
		w, ok := readWorker(r, s, fmt.Sprintf("%s[%d]", at, i), item)
		if r.full() {
			return nil
		}
		if ok {
			workers = append(workers, w)
		}
	}
	r.add(clashes(workers)...)
	return workers
}

// readWorker returns an entry if it has an address that could be read: without
// one it cannot clash with others.
func readWorker(r *reader, s *schema[WorkerSpec], at string, item *yaml.Node) (WorkerSpec, bool) {
	// The lines of its keys are of use here only, and a list can be long.
	outer := r.lines
	r.lines = make(map[string]int)
	defer func() { r.lines = outer }()

	w := WorkerSpec{RoutingGroup: fleet.DefaultName, Ranks: 1, Source: r.name + ":" + strconv.Itoa(item.Line)}
	before := len(r.problems) + r.unsaid
	readSection(r, s, "", at, item, &w)
	if w.Address == "" {
		if _, set := r.lines[at+".address"]; !set && len(r.problems)+r.unsaid == before {
			r.wrong(item.Line, at, "has no address; add address: host:port")
		}
		return w, false
	}
	if len(w.Models) == 0 {
		w.Models = []string{fleet.DefaultName}
	}
	for i, adapter := range w.Adapters {
		if slices.Contains(w.Models, adapter) {
			r.wrong(r.lineOf(item, at+".adapters"), fmt.Sprintf("%s.adapters[%d]", at, i),
				quote(adapter)+" is a model of this worker too; name it in one of the two lists")
		}
	}
	r.checkRankPorts(item, at+".kv_events", w.KVEvents, w.Ranks)
	r.checkRankPorts(item, at+".kv_replay", w.KVReplay, w.Ranks)
	return w, true
}

func (r *reader) lineOf(fallback *yaml.Node, path string) int {
	if line, ok := r.lines[path]; ok {
		return line
	}
	return fallback.Line
}

// checkRankPorts checks that every rank has a port: rank i uses port + i.
func (r *reader) checkRankPorts(item *yaml.Node, at, endpoint string, ranks uint32) {
	if endpoint == "" {
		return
	}
	port, err := strconv.Atoi(endpoint[strings.LastIndexByte(endpoint, ':')+1:])
	if last := port + int(ranks) - 1; err == nil && last > 65535 {
		r.wrong(r.lineOf(item, at), at, fmt.Sprintf(
			"gives rank %d port %d, rank i uses port + i; choose a port up to %d", ranks-1, last, 65536-int(ranks)))
	}
}

// problem places text where the worker is listed.
func (w *WorkerSpec) problem(text string) Problem {
	i := strings.LastIndexByte(w.Source, ':')
	if i < 0 {
		return Problem{File: w.Source, Text: text}
	}
	line, err := strconv.Atoi(w.Source[i+1:])
	if err != nil {
		return Problem{File: w.Source, Text: text}
	}
	return Problem{File: w.Source[:i], Line: line, Text: text}
}
