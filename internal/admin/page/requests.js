// Requests by reason: where they went and why, and which were refused.

const reasons = {
  bound: "came home: the session was bound to a live worker",
  new: "opened a session, bound from now on",
  rebound: "its worker had gone; bound to another one",
  explicit: "the client named the worker",
  no_session: "has no session; went to the least busy worker",
  no_model: "names no model where there are several; went to any worker",
  no_tokens: "the prompt could not be tokenized; chosen by load alone",
  table_full: "the session table is full; went without a binding",
  worker_gone: "refused: its worker is gone and may not be replaced",
  no_worker: "refused: nobody can serve it",
  overloaded: "refused: every worker is over its limit",
  subset: "refused: the gateway's subset leaves nobody",
  invalid: "refused: the request is wrong",
  too_large: "refused: the body is over the limit",
  deadline: "refused: no answer within the deadline",
};

const isRefusal = (reason) => (reasons[reason] ?? "").startsWith("refused");

function showRequests(minute) {
  const box = byId("requests");
  const metrics = minute.newest?.metrics ?? new Map();
  const sums = sumBy(metrics, "mooring_requests_total", "reason");
  const before = sumBy(minute.oldest?.metrics ?? new Map(), "mooring_requests_total", "reason");
  const most = Math.max(1, ...sums.values());
  const window = minute.newest ? span(minute.newest.at - minute.oldest.at) : "";
  const rows = [...sums]
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
    .map(([reason, n]) => ({ reason, n, recent: n - (before.get(reason) ?? 0), share: n / most, window, codes: codesOf(metrics, reason) }));
  if (!rows.length) return showEmpty(box, noRequests);
  clearEmpty(box);
  keyed(box, rows, (r) => r.reason, requestRow);
}

function noRequests() {
  return emptyState(
    "No request yet",
    "Requests are counted here once Envoy asks this replica where to send them. The command below prints a complete Envoy configuration that does.",
    "extproc envoy --config mooring.yaml",
  );
}

/** The answers other than 200 that a reason had: "503 × 12". */
function codesOf(metrics, reason) {
  const codes = new Map();
  for (const { labels, value } of metrics.get("mooring_requests_total") ?? []) {
    if (labels.reason === reason && value > 0 && /^[1345]/.test(labels.code ?? "")) codes.set(labels.code, value);
  }
  return [...codes].sort().map(([code, n]) => `${code} × ${count(n)}`).join(", ");
}

function requestRow(row) {
  const bar = svg("rect", { height: 4 });
  const [all, recent, codes] = [el("span", { class: "n" }), el("span", { class: "n quiet" }), el("span", { class: "codes" })];
  return {
    element: el("div", { class: "reason", "data-refused": isRefusal(row.reason) },
      el("code", null, row.reason), el("span", { class: "why quiet" }, reasons[row.reason] ?? "", " ", codes), all, recent,
      svg("svg", { class: "bar", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" }, bar)),
    update(r) {
      write(all, count(r.n));
      write(recent, r.recent > 0 ? `+${count(r.recent)} in ${r.window}` : "");
      write(codes, r.codes);
      mark(bar, "width", (100 * r.share).toFixed(2));
    },
  };
}
