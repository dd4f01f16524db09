// The picture: each worker is a pier, each boat moored at it some sessions. A lit
// boat has requests running. A button as a whole: it filters the sessions below.

const rowsPerPier = 14;
const boatsPerPier = 2 * rowsPerPier;
const rowHeight = 9;
const narrowestBerth = 140; // CSS pixels

/** Sessions per boat, from 1, 2, 5, 10, 20…, so that the fullest pier has room. */
function sessionsPerBoat(workers) {
  const most = Math.max(0, ...workers.map((w) => w.sessions));
  for (let unit = 1; ; unit *= 10) {
    for (const step of [1, 2, 5]) if (most <= unit * step * boatsPerPier) return unit * step;
  }
}

function showHarbour(workers, selected, select) {
  const harbour = byId("harbour");
  mark(harbour, "data-empty", workers.length ? undefined : "");
  const per = sessionsPerBoat(workers);
  const boats = (n) => Math.ceil(n / per);
  const rows = Math.max(4, ...workers.map((w) => Math.ceil(boats(w.sessions) / 2)));
  write(byId("legend"), workers.length ? legendText(per) : "");
  if (!workers.length) return showEmpty(harbour, noWorkers);
  clearEmpty(harbour);
  const piers = Math.max(1, Math.floor(harbour.clientWidth / narrowestBerth));
  const columns = Math.ceil(workers.length / Math.ceil(workers.length / piers));
  harbour.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  const free = Array.from({ length: (columns - (workers.length % columns)) % columns }, (_, i) => ({ worker_id: `free ${i}`, free: true }));
  keyed(harbour, [...workers, ...free], (w) => w.worker_id, (w) => (w.free ? freeBerth() : berth(w, select)));
  for (const [id, child] of harbour.keyed) child.moor?.(boats, rows, id === selected);
}

/** Fills the quay up where the last row has fewer workers. */
const freeBerth = () => ({ element: el("span", { class: "berth" }, el("span", { class: "sign" }, "\u00a0"), el("span", { class: "sum" }, "\u00a0")), update() {} });

const legendText = (per) => `${per === 1 ? "A boat is one session" : `A boat is up to ${count(per)} sessions`}; lit while a request runs`;

function noWorkers() {
  return emptyState(
    "No worker yet",
    "Name your workers in the configuration file; a running replica reads the change at once, without a restart.",
    "workers:\n  static:\n    - {address: 10.0.0.7:8000, models: [llama-70b]}",
  );
}

/** One worker's place in the harbour. */
function berth(worker, select) {
  const shape = el("span", { class: "shape" });
  const name = el("span", { class: "name" });
  const sum = el("span", { class: "sum" });
  const picture = svg("svg", { class: "pier", "aria-hidden": "true" });
  const element = el("button", { type: "button", class: "berth", onclick: () => select(worker.worker_id) },
    el("span", { class: "sign" }, shape, name), sum, picture);
  let now = worker;
  let drawn = "";
  return {
    element,
    update(w) {
      now = w;
      mark(element, "data-state", w.state);
      mark(shape, "data-state", w.state);
      write(name, w.address);
      write(sum, w.state === "active" ? plural(w.sessions, "session") : `${count(w.sessions)} · ${w.state}`);
      mark(element, "title", `${w.address}: ${w.state}, ${plural(w.sessions, "session")}, ${plural(w.live, "request")} running`);
    },
    moor(boats, rows, pressed) {
      mark(element, "aria-pressed", String(pressed));
      const [all, lit] = [boats(now.sessions), Math.min(boats(now.sessions), boats(now.live))];
      if (drawn === `${all} ${lit} ${rows}`) return;
      drawn = `${all} ${lit} ${rows}`;
      drawPier(picture, all, lit, rows);
    },
  };
}

/** The quay is the upper edge; the pier goes down into the water. */
function drawPier(picture, all, lit, rows) {
  const height = rows * rowHeight + 14;
  mark(picture, "viewBox", `0 0 96 ${height}`);
  picture.style.setProperty("--height", `${height}px`);
  const shapes = [svg("rect", { class: "planks", x: 45, y: 0, width: 6, height: height - 4, rx: 1.5 })];
  for (let i = 0; i < all; i++) {
    const side = i % 2 ? 1 : -1;
    const y = 9 + Math.floor(i / 2) * rowHeight;
    const x = 48 + side * 7;
    shapes.push(svg("path", { class: "rope", d: `M${48 + side * 3} ${y}h${side * 4}` }));
    shapes.push(svg("path", { class: i < lit ? "boat lit" : "boat", d: hull(x, y, side) }));
  }
  picture.replaceChildren(...shapes);
}

/** Seen from above: a straight stern at the pier, the bow pointing away. */
const hull = (x, y, side) =>
  `M${x} ${y - 2.6}h${side * 13}q${side * 7} .4 ${side * 11} 2.6q${side * -4} 2.2 ${side * -11} 2.6h${side * -13}z`;
