/** What `perigee/kvcache` and `perigee/scheduler` export is enough for a simulator and a router. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import * as kvcache from "../../src/kvcache/public.ts";
import * as scheduling from "../../src/scheduler/public.ts";

const { BlockTable, KvCache, KvMirror } = kvcache;
const { NO_STOP_RULES, Scheduler, SchedulerConfig, Sequence, SequenceGroup } = scheduling;

const prompt = Int32Array.from({ length: 40 }, (_, token) => token);

/** One request of `maxTokens` tokens, all of them 7. */
function request(id: number, maxTokens: number) {
  const requestId = `request ${id}`;
  const stop = { ...NO_STOP_RULES, maxTokens };
  const options = { requestId, promptTokenIds: prompt, arrivalMs: 0, stop };
  const sequence = new Sequence({ id: scheduling.sequenceId(id), ...options });
  return new SequenceGroup({ requestId, sequences: [sequence] });
}

test("package.json names both entry points", () => {
  const manifest = JSON.parse(readFileSync("package.json", "utf8"));
  for (const folder of ["kvcache", "scheduler"]) {
    expect(manifest.exports[`./${folder}`]).toEqual({
      types: `./dist/${folder}/public.d.ts`,
      default: `./dist/${folder}/public.js`,
    });
  }
});

test("the values that they export", () => {
  expect(Object.keys(kvcache).sort()).toEqual([
    ...["BLOCK_HASH_ALGORITHMS", "BlockTable", "EVICTION_POLICIES", "KvCache", "KvEventLog"],
    ...["KvEventReader", "KvMirror", "NO_MATCH", "OFFLOAD_PRIORITY_MIN", "PRIORITY_DEFAULT"],
    ...["PRIORITY_MAX", "PRIORITY_MIN", "VllmEventEncoder", "checkedRetention"],
    ...["decodeRetention", "isLost", "kvEventJson", "kvEventsJson", "kvSnapshotJson"],
    ...["parseKvEvent", "parseKvEvents", "parseKvSnapshot", "parseScope", "promptRetention"],
    "scopeKey",
  ]);
  expect(Object.keys(scheduling).sort()).toEqual([
    ...["NO_STOP_RULES", "Scheduler", "SchedulerConfig", "Sequence", "SequenceGroup"],
    ...["isEmptyPlan", "sequenceId"],
  ]);
});

describe("with their exports alone", () => {
  test("a conversation is cached, and a router sees its blocks", () => {
    const cache = new KvCache({ blocks: 100, blockTokens: 16, events: "v1_block_key" });
    const mirror = new KvMirror();
    const table = new BlockTable();
    cache.adopt(table, cache.match("", prompt));
    expect(cache.allocate(table, cache.blocksFor(prompt.length) - table.length)).toBe(true);
    const source: kvcache.TokenSource = {
      length: prompt.length,
      view: (start, end) => prompt.subarray(start, end),
    };
    cache.publish(table, source, prompt.length);
    cache.release(table);
    expect(cache.match("", prompt).blocks.length).toBe(2);
    expect(cache.poolStats()).toEqual({ free: 98, held: 0, cached: 2, total: 100 });
    for (const event of cache.takeEvents()) expect(mirror.apply(event)).toBe(true);
    expect(mirror.size).toBe(2);
  });

  test("a step loop without a model serves two requests, the second from the cache", () => {
    const cache = new KvCache({ blocks: 100, blockTokens: 16 });
    const config = SchedulerConfig.parse({ stepTokensMax: 32, runningSequencesMax: 8 });
    const scheduler = new Scheduler({ config, cache, contextTokensMax: 1024 });
    const ended: (scheduling.EndReason | null)[] = [];
    let nowMs = 0;
    for (const id of [1, 2]) {
      const group = request(id, 8);
      scheduler.add(group);
      while (!group.lead.finished) {
        const plan = scheduler.plan();
        scheduler.begin(plan, nowMs);
        cache.takeMoves();
        const sampled = plan.items.map(({ samples }) => (samples ? [7] : null));
        scheduler.commit(plan, sampled, ++nowMs);
      }
      const { state } = group.lead;
      ended.push(state.phase === "finished" ? state.reason : null);
    }
    expect(ended).toEqual(["length", "length"]);
    // 40 tokens in two steps, then in one: 39 of them are cached.
    expect(nowMs).toBe(9 + 8);
    expect(scheduler.stats()).toMatchObject({ heldBlocks: 0, prefixHitTokens: 39 });
  });
});
