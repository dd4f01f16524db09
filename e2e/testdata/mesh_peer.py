"""A plain libzmq peer of the mesh, as others write one: mesh_peer.py PUB SUB...

It binds a PUB socket at PUB and connects a SUB socket to each SUB, for the two
binding topics, with heartbeats on. It publishes what stdin says and prints what
comes, one JSON object a line:

  stdin   {"topic": T, "event": {...}} | {"topic": T, "hex": "..."} | {"flood": N, "event": {...}}
  stdout  {"bound": ENDPOINT}, {"lost": WHICH}, {"topic": T, "frames": N, "keys": [...], "event": {...}, "hex": "..."}
"""
import json, struct, sys, threading, zmq
from zmq.utils.monitor import recv_monitor_message

TOPICS = [b"dynamo.session-affinity.v2", b"dynamo.session-affinity.v1"]
lock = threading.Lock()


def say(**what):
    with lock:
        print(json.dumps(what), flush=True)


def pack(value):
    """MessagePack of maps of text, integers and null, in the smallest form."""
    if value is None:
        return b"\xc0"
    if isinstance(value, dict):
        return bytes([0x80 | len(value)]) + b"".join(pack(k) + pack(v) for k, v in value.items())
    if isinstance(value, str):
        text = value.encode()
        return (bytes([0xA0 | len(text)]) if len(text) < 32 else b"\xd9" + bytes([len(text)])) + text
    for limit, code, form in ((1 << 8, 0xCC, ">B"), (1 << 16, 0xCD, ">H"), (1 << 32, 0xCE, ">I"), (1 << 64, 0xCF, ">Q")):
        if value < 128:
            return bytes([value])
        if value < limit:
            return bytes([code]) + struct.pack(form, value)
    raise ValueError(value)


def unpack(data):
    """The map in data, with its keys in the order in which they came."""
    at = 0

    def take(n):
        nonlocal at
        at += n
        return data[at - n:at]

    def one():
        c = take(1)[0]
        if c < 0x80:
            return c
        if c & 0xF0 == 0x80:
            return {one(): one() for _ in range(c & 15)}
        if c & 0xE0 == 0xA0:
            return take(c & 31).decode()
        if c == 0xC0:
            return None
        if c == 0xD9:
            return take(take(1)[0]).decode()
        return int.from_bytes(take(1 << (c - 0xCC)), "big")  # 0xcc to 0xcf; else take fails

    return one()


def watch(socket, which):
    monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)

    def run():
        while True:
            recv_monitor_message(monitor)
            say(lost=which)
    threading.Thread(target=run, daemon=True).start()


context = zmq.Context()


def open_socket(kind, which):
    socket = context.socket(kind)
    socket.set(zmq.HEARTBEAT_IVL, 300)
    socket.set(zmq.HEARTBEAT_TIMEOUT, 1500)
    socket.set(zmq.RECONNECT_IVL, 20)
    socket.set(zmq.SNDHWM, 0)
    watch(socket, which)
    return socket


sub = open_socket(zmq.SUB, "sub")
for topic in TOPICS:
    sub.set(zmq.SUBSCRIBE, topic)
for endpoint in sys.argv[2:]:
    sub.connect(endpoint)


def listen():
    while True:
        frames = sub.recv_multipart()
        event = unpack(frames[1])
        say(topic=frames[0].decode(), frames=len(frames), keys=list(event), event={k: str(v) for k, v in event.items()}, hex=frames[1].hex())


threading.Thread(target=listen, daemon=True).start()
pub = open_socket(zmq.PUB, "pub")
pub.bind(sys.argv[1])
say(bound=pub.get(zmq.LAST_ENDPOINT).decode().rstrip("\0"))
for line in sys.stdin:
    order = json.loads(line)
    if "flood" in order:
        event = order["event"]
        for n in range(order["flood"]):
            event["session_id"] = "flood-%d" % n
            pub.send_multipart([TOPICS[0], pack(event)])
        say(flooded=order["flood"])
        continue
    payload = bytes.fromhex(order["hex"]) if "hex" in order else pack(order["event"])
    pub.send_multipart([order["topic"].encode(), payload])
