import { ApproximateIndex, FleetIndex, KvIndex, ShardedKvIndex } from "#cluster/index";
import type { KvScope, WorkerNumber } from "#cluster/protocol";
import { type LookupOnTrial, prefixLookupContract } from "../../contracts/prefix-lookup.ts";

const clock = { nowMs: () => 0 };

/** What a worker of an exact index announces; names are those of the tokens, as text. */
function announcing(index: Pick<KvIndex, "apply">) {
  const numbers = new Map<string, number>();
  return (worker: WorkerNumber, scope: KvScope, tokens: Uint32Array): void => {
    const { blockTokens } = scope;
    const blocks = Math.floor(tokens.length / blockTokens);
    const names = Array.from({ length: blocks }, (_, block) => {
      const key = `${JSON.stringify(scope)}${tokens.subarray(0, (block + 1) * blockTokens)}`;
      const number = numbers.get(key) ?? numbers.size;
      numbers.set(key, number);
      return [number, 0];
    });
    index.apply(worker, [
      {
        ...{ type: "stored", scope, level: 0, parent: null },
        names: Uint32Array.from(names.flat()),
        tokens: tokens.slice(0, blocks * blockTokens),
      },
    ]);
  };
}

function exact(): LookupOnTrial {
  const index = new KvIndex();
  return {
    blocksOf: (...args) => index.blocksOf(...args),
    find: (prompt) => index.find(prompt),
    findGroups: (groups) => index.findGroups(groups),
    join: () => index.join(),
    leave: (worker) => index.leave(worker),
    give: announcing(index),
  };
}

function approximate(): LookupOnTrial {
  const index = new ApproximateIndex({ clock, ttlMs: 1000, bytesMax: 2 ** 24 });
  const free: WorkerNumber[] = [];
  let workers = 0;
  return {
    blocksOf: (...args) => index.blocksOf(...args),
    find: (prompt) => index.find(prompt),
    findGroups: (groups) => index.findGroups(groups),
    // Numbers are the caller's own.
    join: () => free.pop() ?? workers++,
    leave: (worker) => {
      index.reset(worker);
      free.push(worker);
    },
    give: (worker, scope, tokens) => index.routed(worker, index.blocksOf(scope, tokens)),
  };
}

function fleet(announces: boolean): LookupOnTrial {
  const index = new FleetIndex({ clock, bytesMax: 2 ** 26 });
  const announce = announcing(index);
  let isPredicted = false;
  return {
    blocksOf: (...args) => index.blocksOf(...args),
    find: (prompt) => index.find(prompt),
    findGroups: (groups) => index.findGroups(groups),
    join: () => index.join({ announces }),
    leave: (worker) => index.leave(worker),
    give: (worker, scope, tokens) => {
      isPredicted = !isPredicted;
      if (announces && !isPredicted) announce(worker, scope, tokens);
      else index.routed(worker, index.blocksOf(scope, tokens));
    },
  };
}

function sharded(shards: number): LookupOnTrial {
  const index = new ShardedKvIndex({ shards, bytesMax: 2 ** 25 });
  return {
    blocksOf: (...args) => index.blocksOf(...args),
    find: (prompt) => index.find(prompt),
    findGroups: (groups) => index.findGroups(groups),
    join: () => index.join(),
    leave: (worker) => index.leave(worker),
    give: announcing(index),
    close: () => index.close(),
  };
}

prefixLookupContract("the index of events", exact);
prefixLookupContract("one shard", () => sharded(1));
prefixLookupContract("three shards", () => sharded(3));
prefixLookupContract("the index of what was routed", approximate);
prefixLookupContract("a fleet that announces nothing", () => fleet(false));
prefixLookupContract("a fleet of events and predictions", () => fleet(true));
