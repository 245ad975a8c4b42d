/**
 * node bench/scheduler.mjs [--sequences 256] [--steps 2000] [--blocks 1000,10000,100000,1000000]
 *     [--out FILE]
 *
 * What scheduling costs, without a model: µs per step at a full batch of decoding sequences, with
 * and without a long prompt that cannot start yet, and in groups; and ns per block of the cache's
 * operations over pool sizes: chains that were stored whole, and, per eviction order, sequences
 * that grew beside each other, so that no two neighbours lie side by side. Runs from dist; prints
 * JSON, and writes it to the file, where one is named.
 */

import { IntList } from "../dist/base/index.js";
import { BlockTable, EVICTION_POLICIES, KvCache } from "../dist/kvcache/index.js";
import {
  NO_STOP_RULES,
  Scheduler,
  SchedulerConfig,
  Sequence,
  SequenceGroup,
  sequenceId,
} from "../dist/scheduler/index.js";
import { readFlags } from "../tools/flags.mjs";
import { commandLine, describeMachine, median, printResult } from "./machine.mjs";

const BLOCK_TOKENS = 16;
const WARM_UP_STEPS = 300;
const { values: flags } = readFlags({
  options: {
    sequences: { type: "number", default: 256, min: 1 },
    steps: { type: "number", default: 2000, min: 1 },
    blocks: { type: "numbers", default: [1000, 10000, 100000, 1000000], min: 1 },
    out: { type: "string" },
  },
});

const percentile = (values, share) =>
  [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) * share)];
const rounded = (value) => Math.round(value * 10) / 10;

/** Tokens that no other `seed` shares. */
const distinct = (seed, count) => Int32Array.from({ length: count }, (_, at) => seed * 1000 + at);

/** A request of `size` sequences, the first of which has this id. */
function makeGroup(id, size, promptTokenIds) {
  const sequences = Array.from(
    { length: size },
    (_, place) =>
      new Sequence({
        id: sequenceId(id + place),
        requestId: `request-${id}`,
        promptTokenIds,
        arrivalMs: id,
        stop: { ...NO_STOP_RULES, eosTokenIds: new Set([-1]) },
      }),
  );
  return new SequenceGroup({ requestId: `request-${id}`, sequences });
}

/** Milliseconds of plan, begin and commit, one entry per step; CPU time of all. */
function timeSteps({ running, groupSize = 1, waitingTokens, steps }) {
  const blocksPerSequence = Math.ceil((steps + WARM_UP_STEPS + 128) / BLOCK_TOKENS);
  const blocks = running * blocksPerSequence + waitingTokens / BLOCK_TOKENS;
  const cache = new KvCache({ blocks, blockTokens: BLOCK_TOKENS });
  const config = SchedulerConfig.parse({
    stepTokensMax: 8192,
    runningSequencesMax: running + 1,
  });
  const scheduler = new Scheduler({ config, cache, contextTokensMax: 1 << 20 });
  for (let id = 0; id < running; id += groupSize) {
    const more = id === 0 ? waitingTokens : 0;
    scheduler.add(makeGroup(id, groupSize, distinct(id * 1000, 64 + more)));
  }
  const times = { plan: [], begin: [], commit: [], total: [] };
  let cpuBefore = process.cpuUsage();
  for (let step = -WARM_UP_STEPS; step < steps; step++) {
    if (step === 0) cpuBefore = process.cpuUsage();
    if (step === -WARM_UP_STEPS + 50 && waitingTokens > 0) {
      // Stored up to there, but larger than what is left: looked up, and refused, in every step.
      scheduler.add(makeGroup(running, 1, distinct(0, (blocks - 1) * BLOCK_TOKENS)));
    }
    const started = performance.now();
    const plan = scheduler.plan();
    const planned = performance.now();
    scheduler.begin(plan, started);
    const begun = performance.now();
    const drawn = plan.items.map((item) => (item.samples ? [step & 0xff] : []));
    const computed = performance.now();
    scheduler.commit(plan, drawn, computed);
    const committed = performance.now();
    if (step < 0) continue;
    times.plan.push(planned - started);
    times.begin.push(begun - planned);
    times.commit.push(committed - computed);
    times.total.push(planned - started + (begun - planned) + (committed - computed));
  }
  if (waitingTokens > 0 && scheduler.stats().waiting !== 1) throw new Error("It does not wait");
  const { user, system } = process.cpuUsage(cpuBefore);
  return { times, cpuMicrosPerStep: rounded((user + system) / steps) };
}

function measureSteps(name, options) {
  const { times, cpuMicrosPerStep } = timeSteps(options);
  const micros = (values) => rounded(median(values) * 1000);
  return {
    name,
    running: options.running,
    planMicros: micros(times.plan),
    beginMicros: micros(times.begin),
    commitMicros: micros(times.commit),
    totalMicros: micros(times.total),
    totalMicrosP90: rounded(percentile(times.total, 0.9) * 1000),
    // Garbage collection and the benchmark's own work included; waiting for a core is not.
    cpuMicrosPerStep,
  };
}

/** Median ns per block of one pass, over passes. */
function nanosPerBlock(blocks, passes, pass) {
  const times = [];
  for (let index = 0; index < passes; index++) times.push(pass(index));
  return rounded((median(times) * 1e6) / blocks);
}

const timed = (action) => {
  const started = performance.now();
  action();
  return performance.now() - started;
};

/** Chains of 64 blocks, as prompts of 1024 tokens: stored, found, released, evicted. */
function measureCache(blocks) {
  const chain = Math.min(64, blocks);
  const passes = 400;
  const cache = new KvCache({ blocks, blockTokens: BLOCK_TOKENS });
  const listOf = (tokens) => ({ length: tokens.length, view: () => tokens });
  const prompt = (index) =>
    Int32Array.from({ length: chain * BLOCK_TOKENS + 1 }, (_, at) => index * 31 + at);
  const fill = (index) => {
    const table = new BlockTable();
    cache.allocate(table, chain);
    cache.publish(table, listOf(prompt(index)), chain * BLOCK_TOKENS);
    return table;
  };
  // Fill the pool, so that every further allocation evicts.
  for (let index = 0; index * chain < blocks; index++) cache.release(fill(index));

  const cost = { allocateAndEvict: [], publish: [], match: [], adopt: [], release: [] };
  for (let index = 0; index < passes; index++) {
    const tokens = prompt(1_000_000 + index);
    const table = new BlockTable();
    cost.allocateAndEvict.push(timed(() => cache.allocate(table, chain)));
    cost.publish.push(timed(() => cache.publish(table, listOf(tokens), chain * BLOCK_TOKENS)));
    let found;
    cost.match.push(
      timed(() => {
        found = cache.match("", tokens);
      }),
    );
    const second = new BlockTable();
    cost.adopt.push(timed(() => cache.adopt(second, found)));
    cache.release(second);
    cost.release.push(timed(() => cache.release(table)));
  }
  const nanos = Object.entries(cost).map(([name, times]) => [
    `${name}Nanos`,
    nanosPerBlock(chain, times.length, (index) => times[index]),
  ]);
  return { blocks, ...Object.fromEntries(nanos) };
}

/** ns of a block's whole life in a full pool: filled with tokens, stored, given back, forgotten. */
function scatteredNanos(blocks, evictionPolicy) {
  const timedBlocks = 200_000;
  const live = Math.min(128, blocks >> 4);
  const longest = Math.min(128, Math.floor((blocks / live) * 0.8));
  const cache = new KvCache({ blocks, blockTokens: BLOCK_TOKENS, evictionPolicy });
  let state = 12345;
  const below = (limit) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % limit;
  };
  const begin = () => ({
    table: new BlockTable(),
    tokens: new IntList(),
    blocks: 1 + below(longest),
  });
  const sequences = Array.from({ length: live }, begin);
  let nextToken = 0;
  const grow = (count) => {
    for (let grown = 0; grown < count; ) {
      const place = below(live);
      const { table, tokens, blocks: wanted } = sequences[place];
      if (table.length === wanted) {
        cache.release(table);
        sequences[place] = begin();
        continue;
      }
      for (let offset = 0; offset < BLOCK_TOKENS; offset++) tokens.push(nextToken++);
      cache.allocate(table, 1);
      cache.publish(table, tokens, tokens.length);
      grown++;
    }
  };
  grow(Math.max(timedBlocks, 2 * blocks));
  return rounded((timed(() => grow(timedBlocks)) * 1e6) / timedBlocks);
}

const { steps, sequences: running } = flags;
printResult(
  {
    command: commandLine(),
    machine: describeMachine(),
    steps: [
      measureSteps("decode", { running, waitingTokens: 0, steps }),
      measureSteps("decode; a prompt with 8k stored tokens waits", {
        running,
        waitingTokens: 8192,
        steps,
      }),
      measureSteps("decode; four samples of each prompt", {
        running,
        groupSize: 4,
        waitingTokens: 0,
        steps,
      }),
    ],
    perBlock: flags.blocks.map((blocks) => measureCache(blocks)),
    scattered: flags.blocks.map((blocks) => ({
      blocks,
      ...Object.fromEntries(
        EVICTION_POLICIES.map((policy) => [policy, scatteredNanos(blocks, policy)]),
      ),
    })),
  },
  flags.out,
);
