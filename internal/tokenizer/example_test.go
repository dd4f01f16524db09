package tokenizer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"mooring/internal/tokenizer"
)

// A prompt is asked about once; the second answer is remembered.
func Example() {
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"count":2,"max_model_len":4096,"tokens":[15339,1917]}`)
	}))
	defer worker.Close()
	c := tokenizer.New(tokenizer.Config{Deadline: 5 * time.Second})
	defer c.Close()
	for range 2 {
		endpoints := slices.Values([]string{worker.URL + "/tokenize"})
		tokens, outcome := c.Tokens(context.Background(), endpoints, "llama/default", []byte(`{"model":"llama","prompt":"hello world"}`))
		fmt.Println(tokens, outcome)
	}
	// Output:
	// [15339 1917] ok
	// [15339 1917] cached
}
