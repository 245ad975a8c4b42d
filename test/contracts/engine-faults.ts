/** Requests beside planted failures: a request without a failure has the tokens that it has alone. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { Sampler, SequenceSampling } from "#sampling";
import { Scheduler } from "#scheduler";
import { cpuThreads } from "../support/full.ts";

export interface EngineFaultsOptions {
  readonly device: "reference" | "cpu" | "cuda";
  /** Where that device finds its libraries. */
  readonly cuda?: NonNullable<LoadOptions["cuda"]>;
  readonly requests: number;
  readonly seed?: number;
}

/** A model small enough for many requests, with a tokenizer for grammars. */
const MODEL = fileURLToPath(new URL("../fixtures/gguf/tiny-llama.gguf", import.meta.url));
const AT_ONCE = 32;
/** Fewer than the requests under way fill: some are preempted. */
const POOL_BLOCKS = 40;

const WISHES: readonly GenerateOptions[] = [
  { temperature: 0, maxTokens: 6 },
  { temperature: 1, seed: 3, maxTokens: 5, n: 2 },
  { temperature: 0.8, topK: 20, topP: 0.9, seed: 5, minTokens: 3, maxTokens: 9 },
  { temperature: 0.7, seed: 6, repetitionPenalty: 1.3, maxTokens: 5 },
  { temperature: 0, logitBias: { 30: 2 }, maxTokens: 4 },
  { temperature: 1, seed: 9, structuredOutput: { regex: "[a-c]{3}-\\d{2}" }, maxTokens: 12 },
  { beamWidth: 2, n: 2, maxTokens: 4 },
  { temperature: 1, seed: 11, minP: 0.05, stopTokenIds: [7, 8, 9], maxTokens: 8 },
  { temperature: 0, allowedTokenIds: [40, 41, 42, 43], maxTokens: 3, logprobs: 2 },
];

/** Where failures are planted, and how many calls of each place lie between two of them. */
const PLACES = { mask: 53, accept: 127, start: 97, device: 61, begin: 89, commit: 79 } as const;
type Place = keyof typeof PLACES;
const NAMES = Object.keys(PLACES) as Place[];

/** One request's prompt and wishes, again and again the same ones. */
interface Ask {
  readonly promptTokenIds: readonly number[];
  readonly options: GenerateOptions;
}

/** Numbers from a seed; good enough to be everywhere. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1_103_515_245) + 12_345) >>> 0;
    return (this.#state >>> 8) % limit;
  }
}

/** Replaces a method of all objects of a class, until the returned function is called. */
function replace<Owner extends object, Name extends keyof Owner>(
  owner: Owner,
  name: Name,
  wrap: (original: Owner[Name]) => Owner[Name],
): () => void {
  const original = owner[name];
  owner[name] = wrap(original);
  return () => {
    owner[name] = original;
  };
}

/** Failures at random in what a step goes through. */
class Faults {
  readonly planted: Record<Place, number> = {
    ...{ mask: 0, accept: 0, start: 0, device: 0, begin: 0, commit: 0 },
  };
  readonly #dice: Dice;
  /** Calls of each place until the next failure there. */
  readonly #left: Map<Place, number>;
  readonly #undo: (() => void)[];

  constructor(seed: number) {
    this.#dice = new Dice(seed);
    this.#left = new Map(NAMES.map((place) => [place, this.#dice.below(PLACES[place])]));
    const hit = (place: Place) => this.#hit(place);
    this.#undo = [
      replace(
        SequenceSampling.prototype,
        "prepare",
        (original) =>
          async function (this: SequenceSampling) {
            if (this.constrained) hit("mask");
            await original.call(this);
          },
      ),
      replace(
        SequenceSampling.prototype,
        "accept",
        (original) =>
          function (this: SequenceSampling, token) {
            hit("accept");
            return original.call(this, token);
          },
      ),
      replace(
        Sampler.prototype,
        "start",
        (original) =>
          async function (this: Sampler, ...args) {
            hit("start");
            const draw = await original.apply(this, args);
            return {
              take: async () => {
                // The device is waited for either way: nothing overwrites what it reads.
                const batch = await draw.take();
                hit("device");
                return batch;
              },
            };
          },
      ),
      replace(
        Scheduler.prototype,
        "begin",
        (original) =>
          function (this: Scheduler, ...args) {
            original.apply(this, args);
            hit("begin");
          },
      ),
      replace(
        Scheduler.prototype,
        "commit",
        (original) =>
          function (this: Scheduler, ...args) {
            hit("commit");
            return original.apply(this, args);
          },
      ),
    ];
  }

  end(): void {
    for (const undo of this.#undo) undo();
  }

  #hit(place: Place): void {
    const left = (this.#left.get(place) ?? 0) - 1;
    this.#left.set(place, left >= 0 ? left : this.#next(place));
    if (left !== 0) return;
    this.planted[place]++;
    throw new Error(`planted in ${place}`);
  }

  /** Calls until the next failure: as often as said on average, and soon after the start. */
  #next(place: Place): number {
    return 1 + this.#dice.below(2 * PLACES[place]);
  }
}

/** What became of many requests. */
interface Outcome {
  readonly answered: number;
  /** Other tokens than alone. */
  readonly wrong: number;
  /** By the place that ended them. */
  readonly failed: Record<Place, number>;
  /** Failed with other words. */
  readonly unexpected: readonly string[];
}

/**
 * `requests` requests on an engine that steps ahead, with failures of grammars, of the device, of
 * `begin` and of `commit` at random: none has other tokens than alone, a failure that belongs to
 * one request ends no other, no block is held at the end, and the engine serves as before.
 */
export function engineFaultsContract({ device, cuda = {}, ...run }: EngineFaultsOptions): void {
  const { requests, seed = 1 } = run;
  const load = (overlapSteps: boolean, poolBytes: number | null) =>
    LLM.load(MODEL, {
      ...{ device, cuda, overlapSteps, dtype: "float32", threads: cpuThreads, engineThread: false },
      kvCache: { blockTokens: 4, poolBytes },
      scheduler: { runningSequencesMax: 24, stepTokensMax: 64 },
    });

  test(`${requests} requests beside planted failures (${device}, seed ${seed})`, async () => {
    const asks = makeAsks(new Dice(seed));
    const alone = await load(false, null);
    const poolBytes = POOL_BLOCKS * (alone.info.bytesPerBlock ?? 0);
    const expected: string[] = [];
    for (const ask of asks) expected.push(await answerOf(alone, ask));
    await alone[Symbol.asyncDispose]();

    const llm = await load(true, poolBytes);
    const faults = new Faults(seed);
    let outcome: Outcome;
    try {
      outcome = await runAll(llm, asks, expected, requests);
    } finally {
      faults.end();
    }
    const { preemptions, steps } = llm.stats();
    console.log(
      JSON.stringify({ requests, steps, preemptions, planted: faults.planted, ...outcome }),
    );
    expect(preemptions).toBeGreaterThan(0);
    expect(outcome.unexpected).toEqual([]);
    expect(outcome.wrong).toBe(0);
    expect(outcome.answered).toBeGreaterThan(requests / 3);
    for (const place of NAMES) expect(faults.planted[place]).toBeGreaterThan(0);
    for (const place of ["mask", "accept"] as const) {
      expect(outcome.failed[place]).toBeLessThanOrEqual(faults.planted[place]);
    }
    expect(llm.health()).toEqual({ state: "ready" });
    await expect.poll(() => booksOf(llm)).toBe("0 held, 0 running, 0 waiting");
    // What is cached is right, too.
    for (const [place, ask] of asks.entries()) {
      expect(await answerOf(llm, ask)).toBe(expected[place]);
    }
    await llm[Symbol.asyncDispose]();
  });
}

function makeAsks(dice: Dice): Ask[] {
  return Array.from({ length: 4 * WISHES.length }, (_, place) => ({
    // Beginnings are shared, so that prompts find each other's blocks.
    promptTokenIds: Array.from({ length: 2 + dice.below(14) }, (_token, at) =>
      at < 5 ? 20 + at : 20 + dice.below(60),
    ),
    options: WISHES[place % WISHES.length] ?? {},
  }));
}

async function answerOf(llm: LLM, { promptTokenIds, options }: Ask): Promise<string> {
  const [result] = await llm.generate({ promptTokenIds }, options);
  const told = result?.completions.map(({ tokenIds, finishReason }) => [tokenIds, finishReason]);
  return JSON.stringify(told);
}

async function runAll(
  llm: LLM,
  asks: readonly Ask[],
  expected: readonly string[],
  requests: number,
): Promise<Outcome> {
  const failed: Outcome["failed"] = {
    ...{ mask: 0, accept: 0, start: 0, device: 0, begin: 0, commit: 0 },
  };
  const unexpected: string[] = [];
  let [next, answered, wrong] = [0, 0, 0];
  const askOn = async () => {
    while (next < requests) {
      const place = next++ % asks.length;
      const ask = asks[place];
      if (ask === undefined) continue;
      try {
        const answer = await answerOf(llm, ask);
        answered++;
        if (answer !== expected[place]) wrong++;
      } catch (error) {
        const text = error instanceof Error ? error.message : String(error);
        const by = NAMES.find((name) => text.endsWith(`planted in ${name}`));
        if (by === undefined) unexpected.push(text);
        else failed[by]++;
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, askOn));
  return { answered, wrong, failed, unexpected };
}

function booksOf(llm: LLM): string {
  const { heldBlocks, running, waiting } = llm.stats();
  return `${heldBlocks} held, ${running} running, ${waiting} waiting`;
}
