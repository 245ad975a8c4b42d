/**
 * A thread with one shard of an index. All shards read all changes; each keeps those of prefixes
 * that are its own, and of others sees no more than that their parents and names are not known.
 */
import { parentPort, workerData } from "node:worker_threads";
import type { KvScope } from "#cluster/protocol";
import { BlockNamer } from "./block-namer.ts";
import { applyWords } from "./change-words.ts";
import { KvIndex } from "./kv-index.ts";
import { type FromShard, type ShardData, ShardOwner, type ToShard } from "./shard-messages.ts";

const port = parentPort;
if (port === null) throw new Error("A shard runs in a thread");
// What the index started the thread with.
const data = workerData as ShardData;
const progress = new Int32Array(data.progress);
const namer = new BlockNamer(data.secret);
const owner = new ShardOwner(namer, data);
const { bytesMax, workerBlocksMax } = data;
const index = new KvIndex({
  ...{ bytesMax, workerBlocksMax, namer },
  owns: (scope, tokens) => owner.owns(scope, tokens),
});
const scopes = new Map<number, KvScope>();

port.on("message", (message: ToShard) => {
  switch (message.type) {
    case "changes":
      if (message.forgetsScopes) scopes.clear();
      for (const [number, scope] of message.scopes) scopes.set(number, scope);
      applyWords(index, message.words, scopes);
      Atomics.add(progress, data.shard, 1);
      break;
    case "find": {
      const { ask, groups } = message;
      const [first] = groups;
      const isOne = groups.length === 1 && first?.windowTokens === null;
      const matches = isOne ? index.find(first.prompt) : index.findGroups(groups);
      port.postMessage({ type: "found", ask, matches } satisfies FromShard);
      break;
    }
    case "stats":
      port.postMessage({
        ...{ type: "stats", ask: message.ask, stats: index.stats() },
      } satisfies FromShard);
      break;
  }
});
