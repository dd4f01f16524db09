// The table of sessions: a page of the API's list or, while something is looked
// for, what was found in all of it.

const pageSize = 50;
const searchPages = 10; // of 10,000 sessions each
const searchAge = 10_000; // ms after which a search is done again

const sessions = {
  worker: "", // id to filter by; "" for all
  query: "", // text to look for
  starts: [""], // where this page and each one before it begins, in the API's terms
  found: undefined, // {key, at, items, complete} of the last search
  offset: 0, // of the page within what was found
};

async function fetchSessions(parameters) {
  const query = new URLSearchParams(parameters);
  if (sessions.worker) query.set("worker", sessions.worker);
  return ask(`/v1/sessions?${query}`);
}

/** Returns {items, more, first, of, note}: a page to show. */
async function readSessions() {
  if (sessions.query) return readFound();
  const first = (sessions.starts.length - 1) * pageSize;
  const { sessions: items, next } = await fetchSessions({ limit: pageSize, after: sessions.starts.at(-1) });
  if (!items.length && sessions.starts.length > 1) { // what was there has ended
    sessions.starts.pop();
    return readSessions();
  }
  return { items, next, more: next !== "", first };
}

async function readFound() {
  const key = JSON.stringify([sessions.query, sessions.worker]);
  if (sessions.found?.key !== key || Date.now() - sessions.found.at > searchAge) {
    const found = await search(sessions.query);
    sessions.found = { key, at: Date.now(), ...found };
  }
  const { items, complete } = sessions.found;
  sessions.offset = Math.min(sessions.offset, Math.max(0, Math.ceil(items.length / pageSize) - 1) * pageSize);
  return {
    items: items.slice(sessions.offset, sessions.offset + pageSize),
    first: sessions.offset,
    more: items.length > sessions.offset + pageSize,
    of: items.length,
    note: complete ? "" : `; searched the first ${count(searchPages * 10_000)} only`,
  };
}

async function search(query) {
  const wanted = query.toLowerCase();
  const items = [];
  let after = "";
  for (let i = 0; i < searchPages; i++) {
    const page = await fetchSessions({ limit: 10_000, after });
    items.push(...page.sessions.filter((s) => s.session.toLowerCase().includes(wanted) || visible(s.session).toLowerCase().includes(wanted)));
    after = page.next;
    if (!after) return { items, complete: true };
  }
  return { items, complete: false };
}

function showSessions(page, workers) {
  const states = new Map(workers.map((w) => [w.worker_id, w.state]));
  const all = sessions.worker ? workers.find((w) => w.worker_id === sessions.worker)?.sessions : workers.reduce((n, w) => n + w.sessions, 0);
  const of = Math.max(page.of ?? all ?? 0, page.first + page.items.length);
  const last = page.first + page.items.length;
  write(byId("range"), page.items.length ? `${count(page.first + 1)} to ${count(last)} of ${count(of)}${page.note ?? ""}` : "");
  byId("sessions").hidden = page.items.length === 0;
  byId("sessions").classList.toggle("one-partition", new Set(workers.flatMap((w) => w.models.map((m) => JSON.stringify([w.group, m])))).size === 1);
  keyed(byId("sessions").tBodies[0], page.items, (s) => JSON.stringify([s.model, s.group, s.session]), sessionRow);
  for (const child of byId("sessions").tBodies[0].keyed.values()) child.judge(states);
  byId("previous").disabled = page.first === 0;
  byId("next").disabled = !page.more;
  byId("next").dataset.after = page.next ?? "";
  byId("pager").hidden = page.first === 0 && !page.more;
  showNoSessions(page.items.length === 0, workers[0]?.models[0]);
}

function showNoSessions(none, model) {
  const box = byId("sessions-empty");
  const kind = !none ? "" : sessions.query ? `q${sessions.query}` : sessions.worker ? "worker" : "all";
  if (box.dataset.kind === kind) return;
  box.dataset.kind = kind;
  box.replaceChildren();
  if (!none) return;
  if (sessions.query) box.append(emptyState("Nothing found", "No session id has this text in it. Ids are told apart by case; this search is not."));
  else if (sessions.worker) box.append(emptyState("No session at this worker", "It gets the next new sessions when it has fewer requests running than the others."));
  else box.append(emptyState("No session is moored yet", "A session begins with a request through Envoy that carries a session id. Send two with one id: both go to one worker.",
    firstRequest(model)));
}

/** A command to paste; a model's name goes into it only if no shell minds. */
function firstRequest(model) {
  const name = /^[\w./:-]+$/.test(model ?? "") ? model : "MODEL";
  return "curl http://127.0.0.1:10000/v1/chat/completions \\\n  -H 'x-session-id: hello' -H 'content-type: application/json' \\\n" +
    `  -d '{"model": "${name}", "messages": [{"role": "user", "content": "Hello"}]}'`;
}

function sessionRow(session) {
  const worker = el("span", { class: "id" });
  const shape = el("span", { class: "shape" });
  const rank = el("span", { class: "quiet" });
  const [leases, idle] = [cell("Running", { class: "n" }), cell("Idle", { class: "n" })];
  let now = session;
  return {
    element: el("tr", null,
      cell("Session", { class: "session" }, copyable(visible(session.session), session.session)),
      cell("Worker", null, shape, worker, rank),
      cell("Model", null, visible(session.model)), cell("Group", null, visible(session.group)), leases, idle),
    update(s) {
      now = s;
      write(worker, s.address || s.worker_id);
      write(rank, s.dp_rank === null ? "" : ` rank ${s.dp_rank}`);
      mark(worker, "title", `worker ${s.worker_id}, version ${s.sequence} by ${s.writer_id}`);
      write(leases, s.leases ? count(s.leases) : "");
      write(idle, s.leases ? "" : span(s.idle_ms));
    },
    judge(states) { // a binding to a worker that takes nothing moves at its next turn
      const state = states.get(now.worker_id) ?? "vanished";
      mark(shape, "data-state", state);
      mark(shape, "title", state === "active" ? "active" : `${state}: takes no next turn now`);
    },
  };
}

function showWorkerFilter(workers) {
  const select = byId("worker-filter");
  const options = [{ worker_id: "", address: "All workers" }, ...workers];
  if (sessions.worker && !workers.some((w) => w.worker_id === sessions.worker)) options.push({ worker_id: sessions.worker, address: sessions.worker });
  keyed(select, options, (w) => w.worker_id, (w) => ({ element: el("option", { value: w.worker_id }, w.address), update() {} }));
  if (select.value !== sessions.worker) select.value = sessions.worker;
}

/** Back to the first page, of other sessions. */
function chooseSessions(change) {
  Object.assign(sessions, change, { starts: [""], offset: 0 });
  refreshSoon();
}

function listenToSessions() {
  byId("worker-filter").addEventListener("change", (e) => chooseSessions({ worker: e.target.value }));
  let waiting;
  byId("search").addEventListener("input", (e) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => chooseSessions({ query: e.target.value.trim() }), 200);
  });
  byId("next").addEventListener("click", (e) => {
    if (sessions.query) sessions.offset += pageSize;
    else if (e.currentTarget.dataset.after) sessions.starts.push(e.currentTarget.dataset.after);
    refreshSoon();
  });
  byId("previous").addEventListener("click", () => {
    if (sessions.query) sessions.offset = Math.max(0, sessions.offset - pageSize);
    else if (sessions.starts.length > 1) sessions.starts.pop();
    refreshSoon();
  });
}
