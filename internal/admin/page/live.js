// Asks the API each second while the page is seen, and shows what it said.

const interval = 1000;
const patience = 10_000; // for one answer

const minute = new Minute();
const live = { timer: undefined, busy: false, again: false, heardAt: undefined };

async function ask(path) {
  const response = await fetch(path, { signal: AbortSignal.timeout(patience) });
  if (!response.ok && !(path === "/readyz" && response.status === 503)) throw new Error(`${path.split("?")[0]} answered ${response.status}`);
  return response.json();
}

async function askMetrics() {
  const response = await fetch("/metrics", { signal: AbortSignal.timeout(patience) });
  if (!response.ok) throw new Error(`/metrics answered ${response.status}`);
  return parseMetrics(await response.text(), ["mooring_", "process_start_time_seconds"]);
}

async function refresh() {
  try {
    const [health, ready, { workers }, { peers }, metrics, cacheOwners, page] = await Promise.all([
      ask("/healthz"), ask("/readyz"), ask("/v1/workers"), ask("/v1/peers"), askMetrics(), readOwners(), readSessions(),
    ]);
    const now = Date.now();
    live.heardAt = now;
    minute.add(now, metrics);
    workers.sort(forPeople);
    show(health, ready, workers, peers, cacheOwners, page, now);
  } catch (error) {
    showLost(error);
  }
}

function show(health, ready, workers, peers, cacheOwners, page, now) {
  delete document.body.dataset.lost;
  showReadiness(ready.ready ? "ready" : "unready");
  showIdentity(health, total(minute.newest.metrics, "process_start_time_seconds"), now);
  showNotices([...ready.reasons.map((text) => ({ kind: "error", text })), ...ready.warnings.map((text) => ({ kind: "warning", text }))]);
  showFigures(figuresOf(workers, minute));
  showHarbour(workers, sessions.worker, (id) => chooseSessions({ worker: sessions.worker === id ? "" : id }));
  showWorkers(workers, now);
  showOwners(cacheOwners, workers, now);
  showPeers(peers, now);
  showRequests(minute);
  showWorkerFilter(workers);
  showSessions(page, workers);
}

/** What was last heard stays on the page, dimmed. */
function showLost(error) {
  document.body.dataset.lost = "";
  showReadiness("lost");
  const since = live.heardAt ? ` What you see is from ${new Date(live.heardAt).toLocaleTimeString()}.` : "";
  const why = error instanceof TypeError ? "The replica does not answer." : error.name === "TimeoutError" ? "The replica takes too long to answer." : `${error.message}.`;
  showNotices([{ kind: "error", text: `${why} Asking again each second.${since}` }]);
}

/** One round at a time; hidden pages ask nothing. */
async function round() {
  clearTimeout(live.timer);
  if (document.hidden) return;
  if (live.busy) {
    live.again = true;
    return;
  }
  live.busy = true;
  await refresh();
  live.busy = false;
  live.timer = setTimeout(round, live.again ? 0 : interval);
  live.again = false;
}

const refreshSoon = round;

document.addEventListener("visibilitychange", round);
listenToSessions();
listenToExplain();
round();
