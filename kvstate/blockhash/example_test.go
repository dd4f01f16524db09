package blockhash_test

import (
	"fmt"

	"mooring/kvstate/blockhash"
)

// A prompt of nine tokens in blocks of four has two blocks; the ninth token
// waits for its block to fill.
func Example() {
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	blocks := blockhash.Append(nil, tokens, 4, blockhash.Seed("", ""))
	fmt.Println(blocks)
	// Output: [14643705804678351452 16777012769546811212]
}
