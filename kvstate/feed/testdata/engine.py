"""An engine's publisher and replay socket on libzmq, as vLLM has them.

Prints "bound PUB ROUTER", then does what stdin says:
  publish HEX   publish a batch, and keep it for replays
  lose HEX      keep it only: a subscriber misses it
  topic         replays carry the topic from now on (after vLLM PR 45177)
  forget N      of what is kept only the last N stay
"""
import sys, threading, zmq

context = zmq.Context()
pub, router = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
pub.bind("tcp://127.0.0.1:*")
router.bind("tcp://127.0.0.1:*")
wake = context.socket(zmq.PAIR)
wake.bind("inproc://lines")


def lines():
    out = context.socket(zmq.PAIR)
    out.connect("inproc://lines")
    for line in sys.stdin:
        out.send_string(line)


threading.Thread(target=lines, daemon=True).start()
print("bound", *(s.get(zmq.LAST_ENDPOINT).decode().rstrip("\0") for s in (pub, router)), flush=True)

kept, seq, head = [], 0, []
poller = zmq.Poller()
poller.register(router, zmq.POLLIN)
poller.register(wake, zmq.POLLIN)
while True:
    ready = dict(poller.poll())
    if router in ready:
        client, empty, start = router.recv_multipart()
        start = int.from_bytes(start, "big")
        print("asked", start, flush=True)
        for n, payload in kept:
            if n >= start:
                router.send_multipart([client, b"", *head, n.to_bytes(8, "big"), payload])
        router.send_multipart([client, b"", *head, (-1).to_bytes(8, "big", signed=True), b""])
    if wake in ready:
        words = wake.recv_string().split()
        if words[0] == "topic":
            head = [b"kv"]
        elif words[0] == "forget":
            kept = kept[-int(words[1]):]
        else:
            payload = bytes.fromhex(words[1])
            kept.append((seq, payload))
            if words[0] == "publish":
                pub.send_multipart([b"kv", seq.to_bytes(8, "big"), payload])
            seq += 1
