package admin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// The page in parts, one idea a file. The scripts share one scope, in this order.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageStyle string
	//go:embed page/text.js
	scriptText string
	//go:embed page/dom.js
	scriptDOM string
	//go:embed page/metrics.js
	scriptMetrics string
	//go:embed page/status.js
	scriptStatus string
	//go:embed page/harbour.js
	scriptHarbour string
	//go:embed page/workers.js
	scriptWorkers string
	//go:embed page/kv.js
	scriptKV string
	//go:embed page/owners.js
	scriptOwners string
	//go:embed page/peers.js
	scriptPeers string
	//go:embed page/requests.js
	scriptRequests string
	//go:embed page/explain.js
	scriptExplain string
	//go:embed page/candidates.js
	scriptCandidates string
	//go:embed page/sessions.js
	scriptSessions string
	//go:embed page/live.js
	scriptLive string
)

// page is the page for people, ready to be sent: one document that fetches
// nothing but this API.
type page struct {
	body   string
	policy string // Content-Security-Policy
}

// assemblePage puts the parts together. The policy allows exactly the style and
// the script in it, by their hashes, and no way to make markup from text: what a
// client or a worker named itself can only ever be shown.
func assemblePage() page {
	script := "\n" + strings.Join([]string{
		scriptText, scriptDOM, scriptMetrics, scriptStatus, scriptHarbour, scriptKV, scriptWorkers, scriptOwners, scriptPeers,
		scriptRequests, scriptExplain, scriptCandidates, scriptSessions, scriptLive,
	}, "\n")
	return page{
		body: strings.NewReplacer("/*style*/", pageStyle, "/*script*/", script).Replace(pageHTML),
		policy: "default-src 'none'; connect-src 'self'; img-src data:" +
			"; style-src " + hashSource(pageStyle) + "; script-src " + hashSource(script) +
			"; require-trusted-types-for 'script'; trusted-types 'none'" +
			"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
}

// hashSource returns the source expression that allows an inline text.
func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (s *server) getPage(w http.ResponseWriter, _ *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(s.page.body)))
	h.Set("Content-Security-Policy", s.page.policy)
	w.WriteHeader(http.StatusOK)
	w.Write([]byte(s.page.body)) // an error is the client's: it has gone
	return nil
}
