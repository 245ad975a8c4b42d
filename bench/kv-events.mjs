/**
 * node bench/kv-events.mjs [--operations 100000] [--buffer 200] [--seed 1] [--out FILE]
 *
 * Followers of the cache's events, over random operations of the real cache (device and host
 * level): a reader of the log that starts from a snapshot, and a subscriber in vLLM's dialect over
 * real ZeroMQ sockets. The buffer of events is so small that both fall behind, again and again. At
 * the end each must have exactly the cache's own tree; exit code 1 where one has not. Runs from
 * dist; prints JSON.
 */

import { decode } from "@msgpack/msgpack";
import { Subscriber } from "zeromq";
import { IntList, systemTimer } from "../dist/base/index.js";
import { KvEvents } from "../dist/engine/caller/kv-events.js";
import { BlockTable, isLost, KvCache, KvEventLog, KvMirror } from "../dist/kvcache/index.js";
import { KvPublishing } from "../dist/server/kv-events/kv-publishing.js";
import { ZmqKvPublisher } from "../dist/server/kv-events/zmq-publisher.js";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine, printResult } from "./machine.mjs";

const BLOCK_TOKENS = 4;
const MEDIUMS = ["GPU", "CPU", "STORAGE"];
const { values: flags } = readFlags({
  options: {
    operations: { type: "number", default: 100000, min: 1 },
    buffer: { type: "number", default: 200, min: 1 },
    seed: { type: "number", default: 1 },
    out: { type: "string" },
  },
});
const operations = flags.operations;

let state = flags.seed >>> 0;
/** A whole number below `limit`; the same ones for the same seed. */
function below(limit) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * limit);
}

/** Sequences that come with prompts of a few families, grow, and go. */
class Life {
  cache = new KvCache({
    blocks: 96,
    hostBlocks: 64,
    blockTokens: BLOCK_TOKENS,
    events: "v1_block_key",
  });
  #live = [];

  /** One operation: a sequence comes, or one that lives grows or goes. */
  step(now) {
    this.cache.advance(now);
    const choice = below(10);
    if (this.#live.length === 0 || choice < 4) this.#come();
    else if (choice < 7) this.#grow(this.#live[below(this.#live.length)]);
    else this.#go(below(this.#live.length));
    this.cache.takeMoves();
  }

  #come() {
    const family = below(12);
    const length = 2 + below(40);
    const shared = below(length);
    const prompt = Array.from({ length }, (_, at) =>
      at < shared ? family * 1000 + at : 100_000 + below(500),
    );
    const tokens = new IntList(prompt);
    const table = new BlockTable();
    const match = this.cache.match("", tokens.view());
    // With room to spare for a copy, and for what the match brings back.
    if (this.cache.blocksFor(length) + 2 > this.cache.availableBlocks) return;
    this.cache.adopt(table, match);
    const sequence = { table, tokens };
    if (!this.#fill(sequence)) return this.cache.release(table);
    this.#live.push(sequence);
  }

  #grow(sequence) {
    for (let count = below(8); count > 0; count--) sequence.tokens.push(200_000 + below(500));
    this.#fill(sequence);
  }

  #fill({ table, tokens }) {
    const wanted = this.cache.blocksFor(tokens.length - 1) - table.length;
    if (wanted > 0 && !this.cache.allocate(table, wanted)) return false;
    if (wanted > 0 && below(3) === 0) {
      this.cache.setRetention(table, table.length - 1, { priority: below(101), durationMs: 50 });
    }
    this.cache.publish(table, tokens, Math.min(tokens.length - 1, table.length * BLOCK_TOKENS));
    return true;
  }

  #go(place) {
    const [{ table, tokens }] = this.#live.splice(place, 1);
    const computed = Math.min(tokens.length - 1, table.length * BLOCK_TOKENS);
    this.cache.release(table, { tokens, computed });
  }
}

/** Follows the log; starts anew from a snapshot whenever it lost events. */
class Follower {
  mirror = new KvMirror();
  losses = 0;
  #source;
  #reader = null;

  constructor(source) {
    this.#source = source;
  }

  async start() {
    const snapshot = await this.#source.snapshot();
    this.mirror.load(snapshot);
    this.#reader = this.#source.read(snapshot.nextId - 1);
  }

  /** Takes what is there, up to the newest event. */
  async catchUp() {
    while (this.mirror.nextId < this.#source.nextId) {
      for (const item of (await this.#reader.take()) ?? []) {
        if (!isLost(item) && this.mirror.apply(item)) continue;
        this.losses++;
        await this.#reader.return();
        await this.start();
        break;
      }
    }
  }
}

/** What a router keeps of a vLLM worker: how often each hash is stored on each medium. */
class Index {
  counts = new Map();
  messages = 0;
  restarts = 0;

  apply(event) {
    if (event.type === "AllBlocksCleared") {
      this.restarts++;
      this.counts.clear();
      return;
    }
    const change = event.type === "BlockStored" ? 1 : -1;
    for (const hash of event.block_hashes) {
      const key = `${event.medium} ${hash}`;
      const count = (this.counts.get(key) ?? 0) + change;
      if (count === 0) this.counts.delete(key);
      else this.counts.set(key, count);
    }
  }

  equals(snapshot) {
    const full = snapshot.blocks.filter(({ tokenIds }) => tokenIds.length === BLOCK_TOKENS);
    const right = ({ hash, level }) => this.counts.get(`${MEDIUMS[level]} ${hash}`) === 1;
    return full.length === this.counts.size && full.every(right);
  }
}

const life = new Life();
const log = new KvEventLog(flags.buffer);
const source = new KvEvents({
  log,
  enabled: true,
  hashAlgorithm: "v1_block_key",
  streamId: "bench",
  timer: systemTimer,
  takeSnapshot: async () => {
    log.append(life.cache.takeEvents());
    return life.cache.snapshot();
  },
});
const sink = await ZmqKvPublisher.start({
  endpoint: "tcp://*:0",
  replayEndpoint: null,
  topic: "",
  nowSeconds: () => 0,
});
const subscriber = new Subscriber({ receiveHighWaterMark: 0 });
subscriber.connect(sink.endpoint.replace("0.0.0.0", "127.0.0.1"));
subscriber.subscribe("");
// Subscriptions travel by themselves, and nothing says when they have arrived.
await new Promise((resolve) => setTimeout(resolve, 300));
const index = new Index();
const receiving = (async () => {
  for await (const [, , payload] of subscriber) {
    const [, events] = decode(payload, { useBigInt64: true });
    for (const event of events) index.apply(event);
    index.messages++;
  }
})();

log.append(life.cache.takeEvents());
const publishing = new KvPublishing(source, sink, {
  blockTokens: BLOCK_TOKENS,
  window: null,
  onFailure: (error) => {
    throw error;
  },
});
const follower = new Follower(source);
for (let now = 0; now < 500; now++) life.step(now);
log.append(life.cache.takeEvents());
await follower.start();
for (let now = 500; now < operations; now++) {
  life.step(now);
  log.append(life.cache.takeEvents());
  // Readers get a turn now and then: in between the buffer overflows, mostly.
  if (below(40) === 0) await new Promise((resolve) => setImmediate(resolve));
  if (now % 700 === 0) await follower.catchUp();
}
await follower.catchUp();
const snapshot = await source.snapshot();
const deadline = performance.now() + 20_000;
while (!index.equals(snapshot) && performance.now() < deadline) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}
const result = {
  operations,
  events: source.nextId,
  buffer: flags.buffer,
  blocksStored: snapshot.blocks.length,
  reader: { equal: follower.mirror.equals(snapshot), lostTimes: follower.losses },
  zeromq: {
    equal: index.equals(snapshot),
    messages: index.messages,
    restartsFromSnapshot: index.restarts,
  },
};
printResult({ machine: describeMachine(), seed: flags.seed, ...result }, flags.out);
await publishing.close();
subscriber.close();
await receiving;
process.exitCode = result.reader.equal && result.zeromq.equal ? 0 : 1;
