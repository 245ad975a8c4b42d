import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { EngineError } from "#base";
import type { StepOutput } from "../../src/engine/protocol/protocol.ts";
import { tokenBytesOf } from "../support/token-bytes.ts";
import { ScriptedEngine, tokensOf } from "./scripted-engine.ts";

const seeds = [1, 2, 3, 4, 5, 6, 7, 8];

function codeOf(run: () => void): string | null {
  try {
    run();
    return null;
  } catch (error) {
    if (error instanceof EngineError) return error.code;
    throw error;
  }
}

test("requests run to their ends, and no block is held afterwards", async () => {
  const scripted = new ScriptedEngine();
  const first = scripted.add([1, 2, 3], { maxTokens: 3 });
  const second = scripted.add([10], { maxTokens: 2, n: 2 });
  const steps = await scripted.drain();
  expect(tokensOf(steps)).toEqual({
    [`${first}.0`]: [4, 5, 6],
    [`${second}.0`]: [11, 12],
    [`${second}.1`]: [11, 12],
  });
  expect(scripted.engine.stats()).toMatchObject({
    heldBlocks: 0,
    running: 0,
    steps: 3,
    // Both samples draw from the row of one prompt.
    promptTokens: 3 + 1,
    generatedTokens: 3 + 2 + 2,
  });
});

test("end tokens end, minTokens and ignoreEos hold them off, stop tokens report themselves", async () => {
  const scripted = new ScriptedEngine();
  const ends = scripted.add([997], { maxTokens: 9 });
  const stops = scripted.add([10], { maxTokens: 9, stopTokenIds: [12] });
  const long = scripted.add([997], { maxTokens: 3, ignoreEos: true });
  const later = scripted.add([10], { maxTokens: 9, stopTokenIds: [11, 13], minTokens: 2 });
  const finals = (await scripted.drain())
    .flatMap(({ outputs }) => outputs)
    .filter(({ finishReason }) => finishReason !== null);
  const byKey = new Map(finals.map((output) => [output.key, output]));
  expect(byKey.get(ends)).toMatchObject({ finishReason: "stop", stopReason: null });
  expect(byKey.get(stops)).toMatchObject({ finishReason: "stop", stopReason: 12 });
  expect(byKey.get(long)).toMatchObject({ finishReason: "length", stopReason: null });
  expect(byKey.get(later)).toMatchObject({ finishReason: "stop", stopReason: 13 });
});

test("no character of a salt has a meaning: each salt has hashes of its own", async () => {
  const salts = ["a\nb", "tenant", "\ntenant", "7\ntenant", "\0", "\n", "n\u0000", "__proto__"];
  const scripted = new ScriptedEngine({ cache: { events: "v1_block_key" } });
  for (const cacheSalt of salts) {
    scripted.add([1, 2, 3, 4, 5], { maxTokens: 1 }, { cacheSalt });
  }
  await scripted.drain();
  const stored = scripted.cache.takeEvents().flatMap(({ event }) => {
    return event.type === "stored" ? event.blocks : [];
  });
  const first = stored.filter(({ tokenIds }) => tokenIds.length === 4);
  expect(first.map(({ cacheSalt }) => cacheSalt)).toEqual(salts);
  expect(first.every(({ loraId }) => loraId === null)).toBe(true);
  expect(new Set(first.map(({ hash }) => hash)).size).toBe(salts.length);
});

test("a throw inside a step fails the requests of that step, and only these", async () => {
  const scripted = new ScriptedEngine({ runningSequencesMax: 2 });
  const doomed = [scripted.add([1], { maxTokens: 5 }), scripted.add([20], { maxTokens: 5 })];
  const waiting = scripted.add([40], { maxTokens: 2 });
  await scripted.engine.step();
  scripted.duringStep = () => {
    scripted.duringStep = () => {};
    throw new Error("the device fell over");
  };
  const step = await scripted.engine.step();
  expect(step?.failures).toEqual(
    doomed.map((key) => ({
      key,
      error: {
        code: "ENGINE_STEP_FAILED",
        message: "Cannot finish step: the device fell over",
        param: null,
      },
    })),
  );
  expect(step?.outputs).toEqual([]);
  scripted.scheduler.audit();
  expect(tokensOf(await scripted.drain())).toEqual({ [`${waiting}.0`]: [41, 42] });
  expect(scripted.engine.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
});

test("a request fails as a whole, also its sequences that were not in the step", async () => {
  const scripted = new ScriptedEngine({ runningSequencesMax: 2 });
  const key = scripted.add([1, 2, 3], { n: 3, maxTokens: 9 });
  scripted.duringStep = () => {
    throw new Error("no");
  };
  const step = await scripted.engine.step();
  expect(step?.failures.map((failure) => failure.key)).toEqual([key]);
  expect(await scripted.engine.step()).toBeNull();
  expect(scripted.engine.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
});

test("an embedding in a failed step is heard of", async () => {
  const scripted = new ScriptedEngine();
  const key = scripted.addEmbedding([1, 2, 3]);
  scripted.duringStep = () => {
    throw new Error("no");
  };
  const step = await scripted.engine.step();
  expect(step).toMatchObject({ outputs: [], embeddings: [], failures: [{ key }] });
});

test("embeddings come out once, and count as prompt tokens only", async () => {
  const scripted = new ScriptedEngine();
  const key = scripted.addEmbedding([1, 2, 3]);
  const steps = await scripted.drain();
  expect(steps.flatMap(({ embeddings }) => embeddings.map((found) => found.key))).toEqual([key]);
  expect(scripted.engine.stats()).toMatchObject({ promptTokens: 3, generatedTokens: 0 });
});

test("a request given up while its step runs frees its blocks at once and says no more", async () => {
  const scripted = new ScriptedEngine();
  const gone = scripted.add([1, 2, 3], { maxTokens: 9 });
  const stays = scripted.add([50], { maxTokens: 2 });
  scripted.duringStep = () => {
    scripted.duringStep = () => {};
    scripted.engine.abort(gone);
    expect(scripted.scheduler.stats().heldBlocks).toBe(1);
  };
  expect(tokensOf(await scripted.drain())).toEqual({ [`${stays}.0`]: [51, 52] });
  expect(scripted.engine.stats().heldBlocks).toBe(0);
});

test("one sequence can be given up, and the others of its request go on", async () => {
  const scripted = new ScriptedEngine();
  const key = scripted.add([1], { n: 3, maxTokens: 2 });
  scripted.engine.abort(key, 1);
  const tokens = tokensOf(await scripted.drain());
  expect(Object.keys(tokens)).toEqual([`${key}.0`, `${key}.2`]);
});

test("what is unknown, ended or given up twice is no trouble", async () => {
  const scripted = new ScriptedEngine();
  const key = scripted.add([1], { maxTokens: 1 });
  scripted.engine.abort(77);
  await scripted.drain();
  scripted.engine.abort(key);
  const again = scripted.add([1], { maxTokens: 1 });
  scripted.engine.abort(again);
  scripted.engine.abort(again);
  expect(await scripted.engine.step()).toBeNull();
});

test("requests that cannot be taken are refused, and leave nothing behind", async () => {
  const scripted = new ScriptedEngine({ blocks: 8, waitingSequencesMax: 2 });
  const long = Array.from({ length: 33 }, (_, place) => place);
  expect(() => scripted.add(long)).toThrow(
    "Cannot admit request: prompt must fit 32 tokens, current value is 33; shorten it, or raise poolBytes",
  );
  expect(codeOf(() => scripted.add([1], { n: 3 }))).toBe("INVALID_ARGUMENT");
  scripted.add([1], { maxTokens: 1 });
  scripted.add([2], { maxTokens: 1 });
  expect(codeOf(() => scripted.add([3]))).toBe("QUEUE_FULL");
  expect(codeOf(() => scripted.addEmbedding([3]))).toBe("QUEUE_FULL");
  const regex = { structuredOutput: { regex: "a" } };
  expect(codeOf(() => scripted.add([3], regex))).toBe("TOKENIZER_MISSING");
  expect(Object.values(tokensOf(await scripted.drain()))).toEqual([[2], [3]]);
});

describe("what comes in any number", () => {
  const prompt = Array.from({ length: 30_000 }, (_, place) => place);
  const large = { blocks: 8000, contextTokensMax: 32_000 };
  /** Bytes of objects and arrays that `run` leaves behind. */
  const bytesOf = (run: () => void): number => {
    const used = () => process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers;
    const before = used();
    run();
    return used() - before;
  };

  test("16,384 samples of a long prompt are refused before one is made", () => {
    const scripted = new ScriptedEngine(large);
    const bytes = bytesOf(() => {
      expect(codeOf(() => scripted.add(prompt, { n: 16_384 }))).toBe("INVALID_ARGUMENT");
    });
    expect(bytes).toBeLessThan(16 * 2 ** 20);
    expect(scripted.engine.stats().waiting).toBe(0);
  });

  test("1,024 samples with a penalty share their prompt, and what penalties see of it", async () => {
    const scripted = new ScriptedEngine({ ...large, scheduler: { stepTokensMax: 32_000 } });
    let key = Number.NaN;
    const bytes = bytesOf(() => {
      key = scripted.add(prompt, { n: 1024, repetitionPenalty: 1.1, maxTokens: 2 });
    });
    // 1.6 GiB when each had its own.
    expect(bytes).toBeLessThan(32 * 2 ** 20);
    let more = Number.NaN;
    let before = process.memoryUsage().arrayBuffers;
    scripted.duringStep = () => {
      scripted.duringStep = () => {
        more = process.memoryUsage().arrayBuffers - before;
        scripted.engine.abort(key);
      };
      before = process.memoryUsage().arrayBuffers;
    };
    await scripted.drain(100);
    expect(more).toBeLessThan(64 * 2 ** 20);
  });

  test("log-probabilities of a prompt are counted before they are made", () => {
    const scripted = new ScriptedEngine();
    const ask = (tokens: number, promptLogprobs: number) =>
      codeOf(() => scripted.add(prompt.slice(0, tokens), { promptLogprobs, maxTokens: 1 }));
    expect(ask(50, 1)).toBeNull();
    expect(ask(51, 1)).toBe("INVALID_ARGUMENT");
    expect(ask(1, -1)).toBe("INVALID_ARGUMENT");
    expect(ask(10, 9)).toBeNull();
  });
});

test("a grammar that cannot be compiled fails its request, though nothing else runs", async () => {
  const scripted = new ScriptedEngine();
  scripted.engine.useVocabulary(tokenBytesOf(["a", "b", "c"]));
  const key = scripted.add([1], { structuredOutput: { grammar: "root ::= (" } });
  expect(await scripted.engine.step()).toBeNull();
  await expect
    .poll(async () => (await scripted.engine.step())?.failures, { timeout: 50_000 })
    .toMatchObject([{ key, error: { code: "GRAMMAR_INVALID" } }]);
  expect(scripted.engine.stats()).toMatchObject({ waiting: 0, running: 0 });
  scripted.engine.dispose();
});

test("a token that the grammar refuses fails its request, and others go on", async () => {
  const scripted = new ScriptedEngine();
  scripted.engine.useVocabulary(tokenBytesOf(["a", "b", "c", "d"]));
  const bad = scripted.add([1], { structuredOutput: { choice: ["ab"] }, maxTokens: 4 });
  const good = scripted.add([50], { maxTokens: 60 });
  const steps: StepOutput[] = [];
  while (steps.every(({ failures }) => failures.length === 0)) {
    await turn(); // grammars are compiled between steps
    const step = await scripted.engine.step();
    if (step !== null) steps.push(step);
  }
  steps.push(...(await scripted.drain()));
  const failures = steps.flatMap((step) => step.failures);
  expect(failures).toMatchObject([{ key: bad, error: { code: "ENGINE_STEP_FAILED" } }]);
  expect(tokensOf(steps)[`${good}.0`]).toHaveLength(60);
  expect(scripted.engine.stats().heldBlocks).toBe(0);
  scripted.engine.dispose();
});

test.for(seeds)("random comings and goings keep the books right (seed %i)", async (seed) => {
  const scripted = new ScriptedEngine({ blocks: 24, runningSequencesMax: 6 });
  let state = seed;
  const random = (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % below;
  };
  const keys: number[] = [];
  const actOnce = () => {
    const length = 1 + random(20);
    const prompt = Array.from({ length }, (_, place) => random(3) * 100 + place);
    if (random(3) > 0) keys.push(scripted.add(prompt, { n: 1 + random(3), maxTokens: 12 }));
    else
      scripted.engine.abort(keys[random(keys.length + 1)] ?? 0, random(2) ? random(3) : undefined);
  };
  scripted.duringStep = async () => {
    await null;
    if (random(4) === 0) actOnce();
    if (random(10) === 0) throw new Error("a step that fails");
  };
  for (let round = 0; round < 150; round++) {
    actOnce();
    await scripted.engine.step();
    scripted.scheduler.audit();
  }
  scripted.duringStep = () => {};
  await scripted.drain(2000);
  expect(scripted.engine.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
});
