"""The workload of kv-index.mjs on Dynamo's RadixTree, which is Rust behind a Python class.

Events are made and written as JSON before the time is taken; reading them is a part of what is
measured, since the class takes nothing else. Names of tokens are given, not computed. Prints JSON.

    python bench/cluster/dynamo-radix-tree.py WORKERS BLOCKS OPERATIONS
"""

import json
import os
import random
import sys
import time

from dynamo.llm import RadixTree

PROMPT_BLOCKS, SHARED_BLOCKS, FAMILIES = 100, 33, 8
SESSION_BLOCKS = PROMPT_BLOCKS - SHARED_BLOCKS
BATCH, LOOKUPS = 500, 20_000
workers, blocks, operations = (int(argument) for argument in sys.argv[1:4])
chances = random.Random(1)
event_id = 0


def name():
    return chances.getrandbits(63)


def event(data):
    global event_id
    event_id += 1
    return json.dumps({"event_id": event_id, "data": data}).encode()


def stored(parent, names, tokens):
    pairs = [{"block_hash": n, "tokens_hash": t} for n, t in zip(names, tokens)]
    return event({"stored": {"parent_hash": parent, "blocks": pairs}})


def rest_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


shared = [([name() for _ in range(SHARED_BLOCKS)], [name() for _ in range(SHARED_BLOCKS)])
          for _ in range(FAMILIES)]


def session():
    names, tokens = shared[chances.randrange(FAMILIES)]
    own = [name() for _ in range(SESSION_BLOCKS)]
    own_tokens = [name() for _ in range(SESSION_BLOCKS)]
    # Two different ones: this tree does not count how often a worker has stored a block.
    holders = chances.sample(range(workers), 2)
    return {
        "holders": holders,
        "prompt": tokens + own_tokens,
        "stored": stored(names[-1], own, own_tokens),
        "removed": event({"removed": {"block_hashes": own}}),
    }


tree = RadixTree()
for worker in range(workers):
    for names, tokens in shared:
        tree.apply_event(worker, stored(None, names, tokens))

fill_cpu, filled, live, tree_bytes = 0.0, 0, [], 0
while len(live) < blocks / (2 * SESSION_BLOCKS):
    batch = [session() for _ in range(BATCH)]
    before, begin = rest_bytes(), time.process_time()
    for each in batch:
        for worker in each["holders"]:
            tree.apply_event(worker, each["stored"])
    tree.find_matches(batch[-1]["prompt"])
    fill_cpu += time.process_time() - begin
    tree_bytes += rest_bytes() - before
    filled += BATCH * 2 * SESSION_BLOCKS
    live.extend((each["holders"], each["removed"]) for each in batch)

cpu = wall = 0.0
done = oldest = 0
while done < operations:
    recent = [session() for _ in range(BATCH)]
    begin, begin_wall = time.process_time(), time.perf_counter()
    for each in recent:
        tree.find_matches(each["prompt"])
        for worker in each["holders"]:
            tree.apply_event(worker, each["stored"])
        holders, removed = live[oldest]
        oldest += 1
        for worker in holders:
            tree.apply_event(worker, removed)
    tree.find_matches(recent[-1]["prompt"])
    cpu += time.process_time() - begin
    wall += time.perf_counter() - begin_wall
    done += BATCH * (PROMPT_BLOCKS + 4 * SESSION_BLOCKS)
    live.extend((each["holders"], each["removed"]) for each in recent)

times = []
for _ in range(LOOKUPS):
    prompt = recent[chances.randrange(BATCH)]["prompt"]
    begin = time.perf_counter_ns()
    tree.find_matches(prompt)
    times.append((time.perf_counter_ns() - begin) / 1000)
times = sorted(times[LOOKUPS // 10:])
print(json.dumps({
    "index": "Dynamo's RadixTree",
    "workers": workers,
    "fillMillionBlocksPerSecond": round(filled / fill_cpu / 1e6, 2),
    "churnMillionOperationsPerSecond": round(done / cpu / 1e6, 2),
    "byWallClock": round(done / wall / 1e6, 2),
    "findUs": {"p50": round(times[len(times) // 2], 2), "p99": round(times[int(len(times) * 0.99)], 2)},
    "residentBytesPerMembership": round(tree_bytes / filled, 1),
}))
