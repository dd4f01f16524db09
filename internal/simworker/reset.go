package simworker

import "net/http"

// resetPrefixCache answers POST /reset_prefix_cache?reset_external=BOOL as vLLM
// does: the caches of all ranks are emptied, and the host pools too if asked.
// vLLM answers 200 in any case; this worker says 409 when requests hold blocks
// and some rank was not reset.
func (w *Worker) resetPrefixCache(rw http.ResponseWriter, r *http.Request) error {
	host := false
	switch text := r.URL.Query().Get("reset_external"); text {
	case "", "false":
	case "true":
		host = true
	default:
		return badRequest("reset_external must be true or false")
	}
	if err := w.engine.reset(host); err != nil {
		return &apiError{http.StatusConflict, refusedBusy, err.Error()}
	}
	rw.WriteHeader(http.StatusOK)
	return nil
}
