// Package blockhash names blocks of tokens the way Dynamo's routers do, so that
// a block announced by an engine and the same block of a prompt get the same
// name on every replica.
//
// A block is blockSize consecutive token ids. Its local hash is the XXH3-64 of
// the ids as 4-byte little-endian integers, under a seed that stands for the
// adapter and the cache salt, followed by the hashes of the multimodal inputs
// that lie in the block, sorted, as 8-byte little-endian integers. Tokens after
// the last complete block have no hash. A sequence hash names a block together
// with all blocks before it.
//
// All functions are pure and safe for concurrent use; the Append forms allocate
// only if dst is too small.
package blockhash
