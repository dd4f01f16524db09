// The table of workers.

function showWorkers(workers, now) {
  byId("workers-section").hidden = workers.length === 0;
  byId("workers").classList.toggle("no-kv", !workers.some(publishesKV));
  keyed(byId("workers").tBodies[0], workers, (w) => w.worker_id, workerRow);
  for (const child of byId("workers").tBodies[0].keyed.values()) child.age(now);
}

/** How long ago a time of the API was, with the time itself at hand. */
function showSince(time, since, now) {
  write(time, span(Math.max(0, now - Date.parse(since))));
  mark(time, "datetime", since);
  mark(time, "title", new Date(since).toLocaleString());
}

const cell = (label, attributes, ...children) => el("td", { "data-label": label, ...attributes }, ...children);

function workerRow({ worker_id }) {
  const word = el("span");
  const shape = el("span", { class: "shape" });
  const address = el("strong", { class: "id" });
  const name = el("span");
  const models = cell("Models");
  const group = cell("Group");
  const [ranks, sessions, live] = ["Ranks", "Sessions", "Running"].map((label) => cell(label, { class: "n" }));
  const blocks = cell("Blocks", { class: "n kv" });
  const kv = kvState();
  const why = el("div", { class: "fine" });
  const since = el("time");
  let worker;
  return {
    element: el("tr", null,
      cell("State", { class: "state" }, shape, word),
      cell("Worker", null, address, el("div", { class: "fine" }, name, copyable(worker_id))),
      models, group, ranks, sessions, live, blocks,
      cell("KV state", { class: "kv" }, ...kv.parts, why), cell("In state", { class: "n" }, since)),
    update(w) {
      worker = w;
      mark(shape, "data-state", w.state);
      write(word, w.state);
      write(address, w.address);
      write(name, w.name && w.name !== w.address ? `${visible(w.name)} ` : "");
      write(models, [...w.models, ...w.adapters.map((a) => `${a} (adapter)`)].map(visible).join(", "));
      write(group, visible(w.group));
      write(ranks, count(w.ranks));
      write(sessions, count(w.sessions));
      write(live, count(w.live));
      write(blocks, publishesKV(w) ? count(w.blocks) : "–");
      kv.show(w.kv.state);
      write(why, inWords(kvReasons, w.kv.reason));
    },
    age(now) {
      showSince(since, worker.since, now);
    },
  };
}
