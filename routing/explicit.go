package routing

import (
	"strconv"
	"strings"

	"mooring/internal/fleet"
)

// The headers by which a client may name its worker, and their aliases, in
// order of precedence. The first of each is also what the worker is told.
var (
	workerHeaders = []string{"x-dynamo-worker-instance-id", "x-worker-instance-id"}
	rankHeaders   = []string{"x-dynamo-dp-rank", "x-dp-rank", "x-data-parallel-rank"}
)

// readExplicit returns the target that the client names; zero for none. Whether
// it exists is for Route to say, which knows the partition.
func readExplicit(values func(string) []string) (fleet.Target, error) {
	worker, workerHeader := firstValue(workerHeaders, values)
	rank, rankHeader := firstValue(rankHeaders, values)
	if worker == "" {
		if rank != "" {
			return fleet.Target{}, invalid("header %s names a rank without a worker; name the worker in %s too", rankHeader, workerHeaders[0])
		}
		return fleet.Target{}, nil
	}
	id, err := fleet.ParseWorkerID(worker)
	if err != nil {
		return fleet.Target{}, invalid("header %s: want a worker id, a decimal number above 0", workerHeader)
	}
	if rank == "" {
		return fleet.WorkerOnly(id), nil
	}
	n, err := strconv.ParseUint(rank, 10, 32)
	if err != nil {
		return fleet.Target{}, invalid("header %s: want a rank, a decimal number from 0", rankHeader)
	}
	return fleet.OnRank(id, uint32(n)), nil
}

// firstValue returns the first non-blank value of the first header that has one.
func firstValue(names []string, values func(string) []string) (value, name string) {
	for _, name := range names {
		for _, v := range values(name) {
			if v = strings.Trim(v, " \t"); v != "" {
				return v, name
			}
		}
	}
	return "", ""
}
