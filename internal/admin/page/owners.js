// The table of cache owners: whose blocks count for which worker, and if not, why.

const ownersShown = 100; // rows; no screen is helped by more
const manyOwners = 500; // from here on they are asked for less often
const ownersPatience = 10_000; // ms between two questions then

const owners = { items: [], at: 0 };

/** The owners as last heard: with many, that is some seconds ago. */
async function readOwners() {
  const now = Date.now();
  if (owners.items.length < manyOwners || now - owners.at > ownersPatience) {
    owners.items = (await ask("/v1/projection")).owners.sort(byNeed);
    owners.at = now;
  }
  return owners.items;
}

/** What needs a look comes first: 0 the most, 3 not at all. */
function needOf(o) {
  if (o.resolution !== "ready") return o.resolution === "unknown" ? 0 : 1;
  return o.holed || o.problem ? 2 : 3;
}

const byNeed = (a, b) => needOf(a) - needOf(b) || (a.owner < b.owner ? -1 : 1);

function showOwners(all, workers, now) {
  byId("owners-section").hidden = all.length === 0;
  const shown = all.slice(0, ownersShown);
  write(byId("owners-range"), ownersSummary(all, shown));
  byId("owners").classList.toggle("all-well", shown.every((o) => needOf(o) === 3));
  const body = byId("owners").tBodies[0];
  keyed(body, shown, (o) => o.owner, ownerRow);
  const addresses = new Map(workers.map((w) => [w.worker_id, w.address]));
  for (const child of body.keyed.values()) child.place(addresses, now);
}

function ownersSummary(all, shown) {
  const ready = all.filter((o) => o.resolution === "ready").length;
  const parts = [ready === all.length ? `all ${count(ready)} ready` : `${count(all.length - ready)} of ${count(all.length)} not ready`];
  if (shown.length < all.length) parts.push(`the first ${count(shown.length)} are shown, ${count(all.length - shown.length)} more are at /v1/projection`);
  return parts.join("; ");
}

/** Everything that is to be said of an owner that is not as it should be. */
function whyOf(o) {
  const differ = (o.mismatches ?? []).map((code) => inWords(kvMismatches, code)).join(", ");
  const why = o.reasons.map((code) => inWords(kvReasons, code) + (code === "status_mismatch" && differ ? ` (${differ})` : ""));
  if (o.holed) why.push("events are missing: less may be there than is counted");
  return why.join("; ");
}

function ownerRow({ owner }) {
  const state = kvState();
  const button = copyable(`${owner.slice(0, 8)}…`, owner);
  mark(button, "title", `Copy ${owner}`);
  const [rank, barrier, cursor] = ["Rank", "Barrier", "Cursor"].map((label) => cell(label, { class: "n" }));
  const source = cell("Source");
  const [worker, shared] = [el("span", { class: "id" }), el("div", { class: "fine" })];
  const [holed, why, problem] = [el("div", { class: "fine" }), el("div"), el("div", { class: "fine" })];
  const since = el("time");
  let now;
  return {
    element: el("tr", null, cell("State", { class: "state" }, ...state.parts, holed), cell("Owner", { class: "session" }, button), source,
      cell("Worker", null, worker, shared), rank, cell("Why", { class: "why" }, why, problem), barrier, cursor, cell("Since", { class: "n" }, since)),
    update(o) {
      now = o;
      state.show(o.resolution);
      write(holed, o.holed ? "holed" : "");
      write(source, o.source.replaceAll("+", ", "));
      write(rank, o.worker_id === "0" ? "–" : String(o.dp_rank));
      write(shared, o.shared ? "another owner names it too" : "");
      write(why, whyOf(o));
      write(problem, visible(o.problem ?? ""));
      write(barrier, o.worker_id === "0" ? "–" : o.barrier);
      write(cursor, o.cursor);
    },
    place(addresses, at) {
      write(worker, now.worker_id === "0" ? "–" : addresses.get(now.worker_id) ?? now.worker_id);
      mark(worker, "title", now.worker_id === "0" ? undefined : `worker ${now.worker_id}`);
      showSince(since, now.since, at);
    },
  };
}
