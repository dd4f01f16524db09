// The table of peers: the other replicas, as configured.

function showPeers(peers, now) {
  byId("peers-section").hidden = peers.length === 0;
  keyed(byId("peers").tBodies[0], peers, (p) => p.endpoint, peerRow);
  for (const child of byId("peers").tBodies[0].keyed.values()) child.age(now);
}

/** One word for a peer, and the shape that goes with it. */
function peerState(p) {
  if (!p.connected) return { word: "not connected", shape: "vanished" };
  if (p.replica_id === null) return { word: "connected", shape: "active" };
  return p.differing > 0 ? { word: "differs", shape: "draining" } : { word: "in step", shape: "active" };
}

function peerRow() {
  const word = el("span");
  const shape = el("span", { class: "shape" });
  const endpoint = el("strong", { class: "id" });
  const replica = cell("Replica");
  const [heard, holes, differing, since] = ["Last heard", "Lost messages", "Differing", "In step for"].map((label) => cell(label, { class: "n" }));
  let peer;
  return {
    element: el("tr", null, cell("State", { class: "state" }, shape, word), cell("Endpoint", null, endpoint), replica, heard, holes, differing, since),
    update(p) {
      peer = p;
      const state = peerState(p);
      mark(shape, "data-state", state.shape);
      write(word, state.word);
      write(endpoint, p.endpoint);
      if (replica.textContent !== (p.replica_id ?? "–")) replica.replaceChildren(p.replica_id === null ? "–" : copyable(p.replica_id));
      write(heard, p.last_heard_ms === null ? "never" : span(p.last_heard_ms));
      write(holes, count(p.holes));
      write(differing, count(p.differing));
    },
    age(now) {
      write(since, peer.converged_since === null ? "–" : span(Math.max(0, now - Date.parse(peer.converged_since))));
    },
  };
}
