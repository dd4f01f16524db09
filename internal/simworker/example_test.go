package simworker_test

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"

	"mooring/internal/simworker"
)

// Sending a prompt twice shows the prefix cache at work.
func Example() {
	w, err := simworker.New(simworker.Config{Name: "w1", Models: []string{"llama"}, BlockSize: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		r := httptest.NewRequest("POST", "/v1/chat/completions",
			strings.NewReader(`{"model":"llama","messages":[{"role":"user","content":"how are you"}]}`))
		answer := httptest.NewRecorder()
		w.Handler().ServeHTTP(answer, r)
		fmt.Println(answer.Header().Get("x-sim-worker"), regexp.MustCompile(`"usage":\{.*\}\}`).FindString(answer.Body.String()))
	}
	// Output:
	// w1 "usage":{"prompt_tokens":9,"total_tokens":25,"completion_tokens":16,"prompt_tokens_details":{"cached_tokens":0}}}
	// w1 "usage":{"prompt_tokens":9,"total_tokens":25,"completion_tokens":16,"prompt_tokens_details":{"cached_tokens":8}}}
}
