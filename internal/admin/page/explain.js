// The form that asks what would become of a request. What is typed into it goes
// to POST /v1/explain and nowhere else: not into the address, not into a store.

const sessionHeader = "x-session-id";

const promptProblems = {
  no_body: "the request has no body",
  unreadable: "the body is no JSON object, or is encoded in a way not known here",
  ambiguous: "a field of the prompt is there twice",
  no_prompt: "the body has no prompt in a form known here",
  no_tokenizer: "it is text, and no tokenizer is configured",
  too_long: "it is longer text than a tokenizer is asked for",
  empty_prompt: "there are no tokens in it",
  no_kv_state: "nothing is known of these workers' caches, so nobody looked",
  not_requested: "the choice does not depend on it",
};

const promptSources = { prompt: "token ids in the body", token_data: "token data in the body", tokenizer: "the tokenizer" };

/** Reads "name: value" lines: Map of lower-case name -> values. */
function readHeaderLines(text) {
  const headers = new Map();
  for (const [i, line] of text.split("\n").entries()) {
    if (!line.trim()) continue;
    const at = line.indexOf(":");
    if (at < 1) throw new Error(`Line ${i + 1} of the further headers is not "name: value".`);
    const name = line.slice(0, at).trim().toLowerCase();
    headers.set(name, [...(headers.get(name) ?? []), line.slice(at + 1).trim()]);
  }
  return headers;
}

/** The body goes as the text that it is: parsing it here would round its numbers. */
function readRequest() {
  const headers = readHeaderLines(byId("explain-headers").value);
  const session = byId("explain-session").value;
  if (session) headers.set(sessionHeader, [session]);
  return { headers: Object.fromEntries(headers), text: byId("explain-body").value };
}

async function askExplanation(request) {
  const response = await fetch("/v1/explain", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request), signal: AbortSignal.timeout(patience),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${visible(answer.error.message)}.`);
  return answer;
}

async function explain(event) {
  event.preventDefault();
  const form = byId("explain");
  if (form.hasAttribute("aria-busy")) return;
  mark(form, "aria-busy", "true");
  try {
    const request = readRequest();
    showExplanation(await askExplanation(request), request);
  } catch (error) {
    const lost = error instanceof TypeError || error.name === "TimeoutError" ? "The replica does not answer." : error.message;
    showVerdict("error", lost);
    byId("explained").replaceChildren();
  }
  mark(form, "aria-busy", undefined);
}

/** The one line that is read out. */
function showVerdict(decision, text) {
  mark(byId("verdict"), "data-decision", decision);
  write(byId("verdict"), text);
}

const rankText = (target) => (target.dp_rank === null ? "" : ` rank ${target.dp_rank}`);

function showExplanation(e, request) {
  const goes = e.decision === "route";
  showVerdict(e.decision, goes ? `Would go to ${e.address || e.worker_id}${rankText(e)}` : "Would be refused");
  byId("explained").replaceChildren(
    el("p", { class: "because" }, el("code", null, e.reason), ": ", visible(e.why), "."),
    factsOf(e, request),
    ...(e.candidates.length ? [candidateTable(e)] : []),
  );
}

function factsOf(e, request) {
  const facts = [
    ["Session", sessionFact(e, request)],
    ["Model", visible(e.model) || "not known"],
    ["Group", visible(e.group)],
    ["Prompt", promptFact(e.prompt)],
    ["Asked at", new Date().toLocaleTimeString()],
  ];
  return el("dl", { class: "facts" }, ...facts.filter(([, text]) => text).map(([name, text]) => el("div", null, el("dt", null, name), el("dd", null, text))));
}

function sessionFact(e, request) {
  if (e.session) return visible(e.session);
  if (!request.headers[sessionHeader] || e.reason === "no_model" || e.decision === "refuse") return "none";
  return `none: ${sessionHeader} names no session here; write the header that does under Further headers`;
}

function promptFact(p) {
  if (p.problem) return `not known: ${p.problem.startsWith("tokenizer_") ? `the tokenizer's outcome is ${visible(p.problem.slice(10))}` : inWords(promptProblems, p.problem)}`;
  if (!p.source) return "";
  return `${plural(p.tokens, "token")} in ${plural(p.blocks, "block")} of ${count(p.block_size)}, from ${inWords(promptSources, p.source)}`;
}

function listenToExplain() {
  byId("explain").addEventListener("submit", explain);
  byId("explain").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) explain(event);
  });
}
