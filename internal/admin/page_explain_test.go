package admin_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// driven serves h with a driver added to the page's script, and to the policy
// that allows it, and writes down the requests.
type driven struct {
	h      http.Handler
	driver string

	mu       sync.Mutex
	requests []string // method, path with query, and content type
}

func (d *driven) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	d.requests = append(d.requests, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+r.Header.Get("Content-Type")))
	d.mu.Unlock()
	if r.URL.Path != "/" {
		d.h.ServeHTTP(w, r)
		return
	}
	plain := httptest.NewRecorder()
	d.h.ServeHTTP(plain, r)
	body := plain.Body.String()
	script := regexp.MustCompile(`(?s)<script type="module">(.*?)</script>`).FindStringSubmatch(body)[1]
	header := w.Header()
	for name, values := range plain.Header() {
		header[name] = values
	}
	header.Set("Content-Security-Policy", strings.Replace(header.Get("Content-Security-Policy"), hashOf(script), hashOf(script+d.driver), 1))
	body = strings.Replace(body, script, script+d.driver, 1)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write([]byte(body))
}

// fillForm fills the form in several times, submits it as a person would, and
// keeps what was shown each time below the page.
const fillForm = `
async function fillIn(body, session, headers, submit) {
  byId("explain-body").value = body;
  byId("explain-session").value = session;
  byId("explain-headers").value = headers;
  submit();
  while (byId("explain").hasAttribute("aria-busy")) await new Promise((done) => setTimeout(done, 5));
  const shown = el("section", { class: "shown" }, byId("verdict").cloneNode(true), byId("explained").cloneNode(true));
  document.body.append(shown);
}
const click = () => document.querySelector("#explain button").click();
const press = () => byId("explain-body").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true }));
await fillIn('{"model":"m","prompt":[1,2,3,4,5,6,7,8,9],"user":"SECRET"}', "s<b>", "", click);
await fillIn('{"model":"m","prompt":"SECRET"}', "", "X-Session-ID: from-a-header\n\nx-other: 1", press);
await fillIn("SECRET, which is no JSON", "", "", click);
await fillIn("{}", "", "x-other: 1\nSECRET", click);
`

func TestPageExplains(t *testing.T) {
	h, _ := explainer(t)
	d := &driven{h: h, driver: fillForm}
	address, _, _ := serve(t, d)
	document, console := render(t, "http://"+address+"/")
	for _, line := range console {
		t.Errorf("the console says %s", line)
	}
	inOrder(t, document, `class="shown"`,
		`data-decision="route">Would go to 10.0.0.2:80 rank 0<`, ">new</code>: its cost, 4, is the least of 2.<", ">s&lt;b&gt;<", ">9 tokens in 3 blocks of 4, from token ids in the body<",
		`<tr data-wins="">`, ">10.0.0.2:80<", ">goes here<", ">2 of 3<", ">1<", ">3<", ">0<", ">2<", ">4</strong>", // prefill, decode, requests, saved, cost
		`data-part="prefill"`, `width="11.49%"`, `data-part="decode"`, `width="34.48%"`, `data-part="credit"`, `width="22.99%"`,
		"<tr>", ">10.0.0.1:80<", ">2 running, 1 waiting, cache 50 % full<",
		">its cache does not count: its records and its agent's status differ<", ">8.7</strong>",
		`class="shown"`, "Would go to", ">no_tokens</code>", ">from-a-header<", "not known: it is text, and no tokenizer is configured", ">goes here<",
		`class="shown"`, `data-decision="refuse">Would be refused<`, ">invalid</code>",
		`class="shown"`, `data-decision="error">Line 2 of the further headers is not "name: value".<`, `<div id="explained"></div>`,
	)
	if strings.Contains(strings.Replace(document, fillForm, "", 1), "SECRET") {
		t.Error("what was typed in is on the page")
	}
	slices.Sort(d.requests)
	asked := slices.DeleteFunc(slices.Compact(d.requests), func(r string) bool { return strings.HasPrefix(r, "GET /") && r != "GET /" })
	if want := []string{"GET /", "POST /v1/explain application/json"}; !slices.Equal(asked, want) {
		t.Errorf("requests %q, want %q beside what is asked each second", asked, want)
	}
	for _, r := range d.requests {
		if strings.Contains(r, "SECRET") {
			t.Errorf("what was typed in is in %s", r)
		}
	}
	if t.Failed() {
		_, shown, _ := strings.Cut(document, `class="shown"`)
		t.Logf("what was shown:\n%.9000s", shown)
	}
}
