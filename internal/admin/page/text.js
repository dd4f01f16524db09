// How values are written for people. Ids of 64 bits are strings everywhere: a
// JavaScript number would round them.

const grouped = new Intl.NumberFormat("en");

/** A count: 12,345. */
const count = (n) => grouped.format(n);

/** An amount that need not be whole: 12,345.67. */
const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const amount = (n) => decimal.format(n);

/** "1 session", "2 sessions". */
const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/** A length of time in its largest unit: "now", "12 s", "3 min", "2 h", "5 d". */
function span(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 1) return "now";
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${count(Math.floor(s / 86400))} d`;
}

/** A rate with as many digits as it is worth. */
function rate(perSecond) {
  if (perSecond === 0) return "0";
  return perSecond < 9.95 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}

/** A short duration given in seconds: "250 µs", "1 ms", "2.5 s". */
function brief(seconds) {
  if (seconds < 1e-3) return `${+(seconds * 1e6).toPrecision(3)} µs`;
  if (seconds < 1) return `${+(seconds * 1e3).toPrecision(3)} ms`;
  return `${+seconds.toPrecision(3)} s`;
}

/** Text from outside, with controls and what reorders or hides its neighbours as ⟨code⟩. */
const visible = (text) =>
  text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `⟨${c.codePointAt(0).toString(16).toUpperCase().padStart(2, "0")}⟩`);

/** Workers in the order of their groups, models and addresses, 10.0.0.9 before 10.0.0.10. */
const byText = new Intl.Collator("en", { numeric: true });
const forPeople = (a, b) =>
  byText.compare(a.group, b.group) || byText.compare(a.models[0], b.models[0]) || byText.compare(a.address, b.address) || byText.compare(a.worker_id, b.worker_id);

/** A commit's name shortened as git does; anything else as it is. */
const shortVersion = (v) => (/^[0-9a-f]{40}$/.test(v) ? v.slice(0, 12) : v);
