package kvstate

import "strconv"

// Worker is one data-parallel rank of one worker process. Rank 0 also stands
// for a worker without data parallelism. Comparable with ==. On the wire:
//
//	{"worker_id":17,"dp_rank":3}
type Worker struct {
	WorkerID uint64 `json:"worker_id"`
	DPRank   uint32 `json:"dp_rank"`
}

// String returns "worker_id:dp_rank".
func (w Worker) String() string {
	return strconv.FormatUint(w.WorkerID, 10) + ":" + strconv.FormatUint(uint64(w.DPRank), 10)
}

// Block is one stored block: how the engine names it and what it holds.
type Block struct {
	External uint64 // the engine's own hash of the block and all before it; opaque
	Local    uint64 // the hash of the block's tokens (package blockhash)
}
