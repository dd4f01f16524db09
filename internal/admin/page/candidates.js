// The candidates of an explained request: what each one costs, in numbers and as
// a bar. A bar's solid part is the cost; the outlined part is what the cache saves.

const candidatesShown = 100;

const costParts = {
  prefill: "Prompt work that is left after what the cache saves",
  decode: "Blocks in use, with this request's",
  requests: "Running and waiting requests, weighted",
  credit: "Prompt work that the cache saves",
};

/** The winner first, then by cost, those over their limits last. */
const byMerit = (a, b) =>
  b.wins - a.wins || a.full - b.full || (a.cost ?? a.active_requests) - (b.cost ?? b.active_requests) || byText.compare(a.address, b.address) || (a.dp_rank ?? 0) - (b.dp_rank ?? 0);

/** The parts of a candidate's bar; without a known prompt, requests alone decide. */
function partsOf(c, scale) {
  if (c.cost === null) return { requests: c.active_requests };
  return { prefill: c.prefill_cost, decode: c.decode_blocks, requests: c.request_cost, credit: scale * Math.min(c.credit, c.raw_prefill_blocks) };
}

/** What a block of prompt work costs: the API says its price with its amount. */
function prefillScale(candidates) {
  const priced = candidates.find((c) => c.cost !== null && c.raw_prefill_blocks > c.credit);
  return priced ? priced.prefill_cost / (priced.raw_prefill_blocks - priced.credit) : 1;
}

function candidateTable(e) {
  const all = [...e.candidates].sort(byMerit);
  const known = all.some((c) => c.cost !== null);
  const scale = prefillScale(all);
  const whole = Math.max(...all.map((c) => Object.values(partsOf(c, scale)).reduce((a, b) => a + b, 0)), 0);
  const head = (label, part) => el("th", { class: part && "n", "data-part": part, title: costParts[part], scope: "col" }, label);
  const heads = known
    ? [head("Candidate"), head("Held blocks"), head("Prefill", "prefill"), head("Decode", "decode"), head("Requests", "requests"), head("Saved", "credit"), el("th", { class: "n", scope: "col" }, "Cost"), head("Cost in parts")]
    : [head("Candidate"), head("Requests", "requests"), head("Load")];
  const table = el("table", { class: "cards candidates", "aria-label": "Candidates" }, el("thead", null, el("tr", null, ...heads)),
    el("tbody", null, ...all.slice(0, candidatesShown).map((c) => candidateRow(c, known, scale, whole, e.prompt.blocks))));
  if (all.length > candidatesShown) table.append(el("caption", { class: "quiet" }, `The first ${candidatesShown} of ${count(all.length)} candidates`));
  return table;
}

function candidateRow(c, known, scale, whole, blocks) {
  const parts = partsOf(c, scale);
  const number = (label, part) => cell(label, { class: "n", "data-part": part }, parts[part] === undefined ? "–" : amount(parts[part]));
  const name = cell("Candidate", null, el("strong", { class: "id" }, c.address || c.worker_id), el("span", { class: "quiet" }, rankText(c)),
    ...(c.wins ? [" ", el("span", { class: "wins" }, "goes here")] : []), ...(c.full ? [" ", el("span", { class: "full" }, "over its limits")] : []),
    el("div", { class: "fine" }, loadText(c.figures)), ...uncounted(c.kv));
  mark(name, "title", `worker ${c.worker_id}`);
  const picture = cell(known ? "Cost in parts" : "Load", { class: "picture" }, costBar(parts, whole));
  const cells = known
    ? [cell("Held blocks", null, heldText(c, blocks)), number("Prefill", "prefill"), number("Decode", "decode"), number("Requests", "requests"),
      number("Saved", "credit"), cell("Cost", { class: "n" }, el("strong", null, c.cost === null ? "–" : amount(c.cost)))]
    : [number("Requests", "requests")];
  return el("tr", { "data-wins": c.wins }, name, ...cells, picture);
}

/** "12 of 16", with the tiers where it is not all in device memory. */
function heldText(c, blocks) {
  const tiers = Object.entries({ device: c.device_blocks, host: c.host_blocks, disk: c.disk_blocks, shared: c.shared_blocks }).filter(([, n]) => n > 0);
  const notes = tiers.length > 1 || (tiers.length && !c.device_blocks) ? tiers.map(([tier, n]) => `${count(n)} ${tier}`) : [];
  if (c.holed) notes.push("holed");
  const held = tiers.reduce((sum, [, n]) => sum + n, 0);
  return el("span", null, `${count(held)} of ${count(blocks)}`, el("div", { class: "fine" }, notes.join(", ")));
}

/** Why what it has in its cache does not count. */
function uncounted(kv) {
  if (kv.state === "ready" || kv.state === "none") return [];
  return [el("div", { class: "fine uncounted" }, `its cache does not count: ${inWords(kvReasons, kv.reason)}`)];
}

/** What the worker last said of itself. */
function loadText(f) {
  if (!f) return "";
  return `${count(f.running)} running, ${count(f.waiting)} waiting, cache ${Math.round(100 * f.kv_use)} % full`;
}

function costBar(parts, whole) {
  const shapes = [];
  let x = 0;
  for (const [part, value] of Object.entries(parts)) {
    const width = whole > 0 ? (100 * value) / whole : 0;
    if (width <= 0) continue;
    shapes.push(svg("rect", { "data-part": part, x: `${x.toFixed(2)}%`, y: 1, width: `${width.toFixed(2)}%`, height: 14 }, svg("title", null, `${part === "credit" ? "saved" : part} ${amount(value)}`)));
    x += width;
  }
  return svg("svg", { class: "parts", height: 16, width: "100%", "aria-hidden": "true" }, ...shapes);
}
