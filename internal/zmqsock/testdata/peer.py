"""A libzmq peer for the tests: peer.py sub|pub|dealer ENDPOINT HEARTBEAT_MS.

sub connects, subscribes everything and prints each message.
dealer connects, sends what stdin asks for and prints each message.
pub binds, prints its endpoint, sends ["beacon", n] every 50 ms and what
stdin asks for. Both print "lost" when libzmq reports a lost connection.
"""
import hashlib, sys, threading, zmq
from zmq.utils.monitor import recv_monitor_message

kind, endpoint, heartbeat = sys.argv[1], sys.argv[2], int(sys.argv[3])
lock = threading.Lock()


def say(*words):
    with lock:
        print(*words, flush=True)


def watch(socket):
    monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED)
    def run():
        while True:
            event = recv_monitor_message(monitor)["event"]
            say("lost" if event == zmq.EVENT_DISCONNECTED else "connected")
    threading.Thread(target=run, daemon=True).start()


def show(frame):
    if len(frame) <= 64:
        return frame.hex() or "-"
    return "%d:%s" % (len(frame), hashlib.sha256(frame).hexdigest())


context = zmq.Context()
socket = context.socket({"sub": zmq.SUB, "pub": zmq.PUB, "dealer": zmq.DEALER}[kind])
if heartbeat:
    socket.set(zmq.HEARTBEAT_IVL, heartbeat)
    socket.set(zmq.HEARTBEAT_TIMEOUT, 3 * heartbeat)
socket.set(zmq.RECONNECT_IVL, 20)
watch(socket)
if kind == "sub":
    socket.set(zmq.SUBSCRIBE, b"")
    socket.connect(endpoint)
    while True:
        say("msg", *map(show, socket.recv_multipart()))


def frames_of(words):
    return [b"" if w == "-" else bytes.fromhex(w) for w in words]


if kind == "dealer":
    socket.connect(endpoint)
    lines = open(0, "rb", buffering=0)
    poller = zmq.Poller()
    poller.register(socket, zmq.POLLIN)
    poller.register(lines, zmq.POLLIN)
    while True:
        ready = dict(poller.poll())
        if socket in ready:
            say("msg", *map(show, socket.recv_multipart()))
        if lines.fileno() in ready:
            socket.send_multipart(frames_of(lines.readline().decode().split()[1:]))

socket.bind(endpoint)
say("bound", socket.get(zmq.LAST_ENDPOINT).decode().rstrip("\0"))
sending = threading.Lock()


def beacons():
    n = 0
    while True:
        with sending:
            if not quiet.is_set():
                socket.send_multipart([b"beacon", b"%d" % n])
        n += 1
        threading.Event().wait(0.05)


quiet = threading.Event()
threading.Thread(target=beacons, daemon=True).start()
for line in sys.stdin:
    words = line.split()
    if words[0] == "quiet":
        quiet.set()
    elif words[0] == "send":
        with sending:
            socket.send_multipart(frames_of(words[1:]))
    elif words[0] == "big":
        with sending:
            socket.send_multipart([b"big", bytes(range(256)) * (int(words[1]) // 256)])
    elif words[0] == "flood":
        with sending:
            for i in range(int(words[1])):
                socket.send_multipart([b"flood", b"%d" % i])
