// The KV state of workers and cache owners, in words and shapes.

const kvReasons = {
  watch_uncertain: "discovery is not sure of its records now",
  no_source: "no agent advertises it",
  ambiguous_source: "more than one agent advertises it",
  no_attachment: "no engine is attached",
  ambiguous_attachment: "more than one engine is attached",
  worker_not_live: "its worker takes no requests",
  endpoint_unreachable: "its publisher cannot be reached",
  status_mismatch: "its records and its agent's status differ",
  recovery_identity_mismatch: "what was recovered is not its own",
  recovery_behind_barrier: "what was recovered has not reached the barrier",
  block_size: "its blocks are not of its partition's size",
};

/** What differs under status_mismatch. */
const kvMismatches = {
  status_owner: "the status is another owner's",
  cache_owner_not_ready: "the agent is unsure of its state",
  attachment_publisher: "the attachment is another publisher's",
  status_publisher: "the status is another publisher's",
  status_protocol: "the status has another protocol version",
  attachment_protocol: "the attachment has another protocol version",
  attachment_ingress: "the ingress protocols differ",
  attachment_rank: "the ranks differ",
  source_event_topic: "the event topic is not the usual one",
  attachment_control_target: "the control targets differ",
  status_detached: "the agent sees no attachment",
  status_generation: "the agent sees another generation",
  status_worker: "the agent sees another worker",
  status_barrier: "the agent's barrier is another",
  status_not_ready: "the agent's attachment is not ready",
};

/** A code in plain words; one that this page does not know, as it is. */
const inWords = (words, code) => (Object.hasOwn(words, code) ? words[code] : visible(code));

/** Whether anything publishes what is in a worker's cache. */
const publishesKV = (worker) => worker.kv.state !== "" && worker.kv.state !== "none";

/** A word with its shape; show takes a state, "" or "none" for nothing to say. */
function kvState() {
  const shape = el("span", { class: "shape" });
  const word = el("span");
  return {
    parts: [shape, word],
    show(state) {
      const none = state === "" || state === "none";
      mark(shape, "data-state", none ? "none" : state);
      write(word, none ? "none" : state);
    },
  };
}
