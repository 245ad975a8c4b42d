"""Mooncake's transfer engine over TCP for bench/transfer.mjs: BYTES [OWNER]."""

import ctypes
import sys
import time

from mooncake.engine import TransferEngine

total = int(sys.argv[1])
engine = TransferEngine()
engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "")
memory = ctypes.create_string_buffer(b"\x03" * total, total)
address = ctypes.addressof(memory)
engine.register_memory(address, total)


def say(text):
    print(f"> {text}", flush=True)


if len(sys.argv) == 2:
    say(f"127.0.0.1:{engine.get_rpc_port()}/{address}")
    time.sleep(1e6)

owner, there = sys.argv[2].split("/")
say("ready")
for line in sys.stdin:
    size = int(line)
    offsets = range(0, total, size)
    ours = [address + at for at in offsets]
    theirs = [int(there) + at for at in offsets]
    lengths = [size] * len(ours)
    began = time.perf_counter()
    status = 0
    # A larger batch of small pieces fails.
    for at in range(0, len(ours), 256):
        part = slice(at, at + 256)
        status |= engine.batch_transfer_sync_read(owner, ours[part], theirs[part], lengths[part])
    took = time.perf_counter() - began
    say(0 if status != 0 else total / took / 1e9)
