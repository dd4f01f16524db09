package simworker

import (
	"crypto/sha256"
	"encoding/binary"
)

// The pieces that replies are made of. Invariant: a reply's text, an opening
// and then any number of words, gives the same tokens back, because every word
// begins with a blank and has at most pieceBytes bytes. The template's
// invariant rests on this.
var (
	replyOpenings = [...]string{"The", "And", "But", "Now", "Yes", "For", "All", "One"}
	replyWords    = [...]string{
		" an", " as", " at", " be", " by", " do", " go", " he", " if", " in", " is", " it", " me", " my", " no", " of",
		" oh", " on", " or", " so", " to", " up", " us", " we", " am", " ox", " ax", " pi", " hi", " id", " mu", " a",
	}
)

// reply makes up the tokens that follow a prompt. The same prompt has the same
// reply on every worker.
type reply struct {
	seed uint64
	n    uint64
}

// replyTo seeds a reply by a whole prompt.
func replyTo(prompt []token) reply {
	key := childKey(blockKey{}, prompt)
	sum := sha256.Sum256(key[:])
	return reply{seed: binary.LittleEndian.Uint64(sum[:])}
}

// next returns the next token of the reply.
func (r *reply) next() token {
	piece := replyWords[mix(r.seed+r.n)%uint64(len(replyWords))]
	if r.n == 0 {
		piece = replyOpenings[mix(r.seed)%uint64(len(replyOpenings))]
	}
	r.n++
	id := token(1)
	for i := range len(piece) {
		id = id<<8 | token(piece[i])
	}
	return id
}

// mix spreads a counter over 64 bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
