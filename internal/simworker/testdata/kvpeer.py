"""A libzmq peer for the tests: kvpeer.py EVENTS REPLAY.

Subscribes everything at EVENTS and prints each message as "live" and its
frames in hexadecimal. For each line of stdin, a sequence number, asks REPLAY,
and prints each message of the answer as "replay" and its frames.
"""
import struct, sys, zmq

context = zmq.Context()
events = context.socket(zmq.SUB)
events.set(zmq.RECONNECT_IVL, 20)
events.set(zmq.SUBSCRIBE, b"")
events.connect(sys.argv[1])
replay = context.socket(zmq.DEALER)
replay.connect(sys.argv[2])
lines = open(0, "rb", buffering=0)
poller = zmq.Poller()
for source in (events, replay, lines):
    poller.register(source, zmq.POLLIN)


def say(word, frames):
    print(word, *[f.hex() or "-" for f in frames], flush=True)


while True:
    ready = dict(poller.poll())
    if events in ready:
        say("live", events.recv_multipart())
    if replay in ready:
        say("replay", replay.recv_multipart())
    if lines.fileno() in ready:
        line = lines.readline()
        if not line:
            break
        replay.send_multipart([b"", struct.pack(">Q", int(line))])
