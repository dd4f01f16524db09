// The top of the page: which replica, whether it is ready and why not, and the
// few figures that say how it is.

const readinessWords = { ready: "Ready", unready: "Not ready", lost: "No answer", waiting: "Asking…" };

function showReadiness(state) {
  const pill = byId("readiness");
  mark(pill, "data-state", state);
  write(pill, readinessWords[state]);
  document.title = `${readinessWords[state]} · Mooring`;
}

function showIdentity(health, startedAt, now) {
  const parts = [`replica ${health.replica_id}`, shortVersion(health.version)];
  if (startedAt) parts.push(`up ${span(Math.max(1000, now - startedAt * 1000))}`);
  write(byId("who"), parts.join(" · "));
}

/** Notices are {kind: "error" | "warning", text}. */
function showNotices(notices) {
  keyed(byId("notices"), notices, (n) => n.kind + n.text, (n) => ({
    element: el("p", { class: "notice", "data-kind": n.kind }, visible(n.text)),
    update() {},
  }));
}

/** Figures are {label, value, note, rates}; rates make a small curve. */
function showFigures(figures) {
  keyed(byId("figures"), figures, (f) => f.label, (f) => {
    const value = el("span", { class: "value" });
    const note = el("span", { class: "note" });
    const curve = f.rates && svg("svg", { class: "curve", viewBox: "0 0 60 20", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("path", { class: "under" }), svg("path"));
    return {
      element: el("div", { class: "figure" }, el("dt", null, f.label), el("dd", null, value, note, ...(curve ? [curve] : []))),
      update(f) {
        write(value, f.value);
        write(note, f.note ?? "");
        if (!curve) return;
        const path = curvePath(f.rates);
        mark(curve.lastChild, "d", path);
        mark(curve.firstChild, "d", path && `${path}V20H${path.slice(1).split(" ", 1)[0]}z`);
      },
    };
  });
}

/** A minute from left to right, one unit a second, the highest rate at the top. */
function curvePath(rates) {
  if (rates.length < 2) return "";
  const end = rates.at(-1).at;
  const highest = Math.max(1, ...rates.map((r) => r.rate));
  return rates.map((r, i) => `${i ? "L" : "M"}${(60 - (end - r.at) / 1000).toFixed(2)} ${(19 - (18 * r.rate) / highest).toFixed(2)}`).join("");
}

function figuresOf(workers, minute) {
  const metrics = minute.newest?.metrics ?? new Map();
  const sum = (field) => workers.reduce((n, w) => n + w[field], 0);
  const active = workers.filter((w) => w.state === "active").length;
  const rates = minute.rates("mooring_requests_total");
  const moves = sumBy(metrics, "mooring_session_moves_total", "cause");
  const pinned = moves.get("pin") ?? 0;
  const moved = [...moves.values()].reduce((a, b) => a + b, 0) - pinned;
  return [
    { label: "Sessions moored", value: count(total(metrics, "mooring_bindings") ?? sum("sessions")) },
    { label: "Active workers", value: count(active), note: `of ${count(workers.length)}` },
    { label: "Requests running", value: count(sum("live")) },
    { label: "Requests per second", value: rate(recentRate(rates)), rates },
    { label: "Pick time, p99", value: pickBound(minute) },
    { label: "Sessions moved", value: count(moved), note: pinned ? `and ${count(pinned)} pinned elsewhere` : "since start" },
  ];
}

/** The mean of the last five seconds: steadier than one. */
function recentRate(rates) {
  const last = rates.slice(-5);
  return last.length ? last.reduce((sum, r) => sum + r.rate, 0) / last.length : 0;
}

/** Over the last minute or, if nothing was picked in it, since start. */
function pickBound(minute) {
  if (!minute.newest) return "–";
  const now = buckets(minute.newest.metrics, "mooring_pick_seconds");
  const before = buckets(minute.oldest.metrics, "mooring_pick_seconds");
  const bound = quantileBound(now, before, 0.99) ?? quantileBound(now, undefined, 0.99);
  if (bound === undefined) return "–";
  return bound === Infinity ? "over the scale" : `≤ ${brief(bound)}`;
}
