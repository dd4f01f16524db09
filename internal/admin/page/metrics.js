// Reads the Prometheus text format, as far as this page needs it.

/** Returns name -> [{labels, value}], for names that begin with one of prefixes. */
function parseMetrics(text, prefixes) {
  const families = new Map();
  for (const line of text.split("\n")) {
    if (!prefixes.some((p) => line.startsWith(p))) continue;
    const sample = parseSample(line);
    if (!sample) continue;
    if (!families.has(sample.name)) families.set(sample.name, []);
    families.get(sample.name).push(sample);
  }
  return families;
}

function parseSample(line) {
  const match = /^([\w:]+)(?:\{(.*)\})? (\S+)/.exec(line);
  if (!match) return undefined;
  const labels = {};
  for (const [, name, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
  }
  return { name: match[1], labels, value: match[3] === "+Inf" ? Infinity : Number(match[3]) };
}

/** The sum over all samples of a metric, or undefined if there is none. */
function total(metrics, name) {
  const samples = metrics.get(name);
  return samples?.reduce((sum, s) => sum + s.value, 0);
}

/** Sums a metric by one label: Map of label value -> sum. */
function sumBy(metrics, name, label) {
  const sums = new Map();
  for (const s of metrics.get(name) ?? []) sums.set(s.labels[label], (sums.get(s.labels[label]) ?? 0) + s.value);
  return sums;
}

/** The cumulative buckets of a histogram: Map of upper bound -> count. */
const buckets = (metrics, name) =>
  new Map([...sumBy(metrics, `${name}_bucket`, "le")].map(([le, n]) => [le === "+Inf" ? Infinity : Number(le), n]));

/**
 * The smallest bucket bound under which a share q of the observations between
 * two readings lies; undefined if there were none.
 */
function quantileBound(now, before, q) {
  const bounds = [...now.keys()].sort((a, b) => a - b);
  const seen = (le) => now.get(le) - (before?.get(le) ?? 0);
  const all = bounds.length ? seen(bounds.at(-1)) : 0;
  return all > 0 ? bounds.find((le) => seen(le) >= q * all) : undefined;
}

/** The readings of the last minute, so that rates can be told. */
class Minute {
  #readings = []; // {at, metrics}, oldest first

  add(at, metrics) {
    // A counter that went back means another process: what was read before is void.
    const last = this.#readings.at(-1);
    const started = (m) => total(m, "process_start_time_seconds");
    if (last && started(last.metrics) !== started(metrics)) this.#readings = [];
    this.#readings.push({ at, metrics });
    while (at - this.#readings[0].at > 61_000) this.#readings.shift();
  }

  get oldest() {
    return this.#readings[0];
  }

  get newest() {
    return this.#readings.at(-1);
  }

  /** Requests per second from each reading to the next. */
  rates(name) {
    return this.#readings.slice(1).map((r, i) => {
      const before = this.#readings[i];
      const grown = (total(r.metrics, name) ?? 0) - (total(before.metrics, name) ?? 0);
      return { at: r.at, rate: Math.max(0, grown) / Math.max(0.001, (r.at - before.at) / 1000) };
    });
  }
}
