import { describe, expect, test } from "vitest";
import { EngineError } from "#base";
import { counts, distinct, Harness, idOf, preempted, sequences } from "./harness.ts";

const codeOf = (action: () => void) => {
  try {
    action();
  } catch (error) {
    return error instanceof EngineError ? `${error.code}: ${error.message}` : String(error);
  }
  return null;
};

describe("[SC4] what can never fit is refused", () => {
  test("a prompt beyond the context, with both numbers", () => {
    const harness = new Harness({ contextTokensMax: 100 });
    harness.add(distinct(1, 99));
    expect(codeOf(() => harness.add(distinct(2, 100)))).toMatch(
      /^PROMPT_TOO_LONG: .* fit 99 tokens, current value is 100/,
    );
    expect(harness.scheduler.stats().waiting).toBe(1);
  });

  test("a prompt beyond the pool, and a sequence alone in it ends when it is full", () => {
    const harness = new Harness({ blocks: 2 });
    expect(codeOf(() => harness.add(distinct(1, 33)))).toMatch(/^PROMPT_TOO_LONG: .* 32 tokens/);
    const only = harness.add(distinct(1, 30));
    harness.drain();
    expect(only.tokens.length).toBe(33);
    expect(only.state).toEqual({ phase: "finished", reason: "length", stopReason: null });
  });

  test("more sequences than may wait; a group whole or not at all", () => {
    const harness = new Harness({ waitingSequencesMax: 3 });
    harness.addLengths(5, 5, 5);
    const group = harness.makeGroup(distinct(4, 5), 2);
    expect(codeOf(() => harness.scheduler.add(group))).toMatch(/^QUEUE_FULL: .* is 4/);
    expect(harness.scheduler.stats().waiting).toBe(3);
    harness.scheduler.audit();
    harness.step();
    harness.scheduler.add(group);
    expect(harness.scheduler.stats().waiting).toBe(2);
  });

  test("a group larger than the queue could ever take is a wrong argument", () => {
    const harness = new Harness({ waitingSequencesMax: 1 });
    const group = harness.makeGroup(distinct(3, 5), 2);
    expect(codeOf(() => harness.scheduler.add(group))).toMatch(/^INVALID_ARGUMENT: .* is 2/);
  });

  test("whole prompts in one step need a step of the context's size", () => {
    const make = () => new Harness({ chunkedPrefill: false, stepTokensMax: 100 });
    expect(codeOf(make)).toMatch(/^INVALID_ARGUMENT: .*stepTokensMax.* 8192 .* 100/);
  });
});

describe("[SC12] commit judges sampled tokens one by one", () => {
  const stop = { eosTokenIds: new Set([2]), stopTokenIds: new Set([42]), maxTokens: 10 };
  const cases = [
    { name: "an end token", stop, drawn: [10, 2, 12], kept: [10, 2], end: ["stop", null] },
    { name: "a stop token", stop, drawn: [10, 42, 12], kept: [10, 42], end: ["stop", 42] },
    {
      name: "the most tokens",
      stop: { ...stop, maxTokens: 2 },
      drawn: [10, 11, 12],
      kept: [10, 11],
      end: ["length", null],
    },
    {
      name: "nothing, where end tokens are ignored",
      stop: { ...stop, ignoreEos: true },
      drawn: [10, 2, 12],
      kept: [10, 2, 12],
      end: null,
    },
  ];
  test.for(cases)("V 5.2 (S5): stops behind $name", ({ stop, drawn, kept, end }) => {
    const harness = new Harness();
    const sequence = harness.add(distinct(1, 20), { stop });
    const [update] = harness.commit(harness.begin(), () => drawn);
    expect(update).toMatchObject({ sequence, tokenIds: kept, finished: end !== null });
    expect([...sequence.tokens.view(20)]).toEqual(kept);
    if (end === null) expect(sequence.state.phase).toBe("decoding");
    else expect(sequence.state).toMatchObject({ reason: end[0], stopReason: end[1] });
  });

  test("several tokens of one step are computed by the next", () => {
    const harness = new Harness();
    harness.addLengths(20);
    harness.step(() => [1, 2, 3]);
    const plan = harness.step();
    expect(plan.items).toMatchObject([{ start: 20, count: 3, samples: true }]);
  });
});

describe("[SC11] a caller that goes away", () => {
  test("frees its blocks at once, waiting, running or computed right now", () => {
    const harness = new Harness();
    const [running, computed] = harness.addLengths(40, 40);
    harness.step();
    harness.scheduler.abort(idOf(running));
    harness.scheduler.audit();
    const plan = harness.begin();
    const waiting = harness.add(distinct(9, 10));
    harness.scheduler.abort(waiting.id);
    harness.scheduler.abort(idOf(computed));
    expect(harness.cache.poolStats().held).toBe(0);
    expect(harness.commit(plan)).toEqual([]);
    expect(computed?.generatedTokens).toBe(1);
    expect(harness.scheduler.abort(idOf(computed))).toBeNull();
    expect(harness.scheduler.find(idOf(computed))).toBeNull();
  });

  test("[SC10] V 5.2 (S15): late tokens of two steps under way are dropped", () => {
    const harness = new Harness({ overlapSteps: true });
    const made = harness.addLengths(...Array.from({ length: 10 }, () => 20));
    const steps = [harness.begin(), harness.begin()];
    const order = [0, 8, 3, 1, 6, 4, 2, 5, 7, 9];
    for (const index of order) {
      harness.scheduler.abort(idOf(made[index]));
      const oldest = steps.shift();
      if (oldest !== undefined) harness.commit(oldest);
      steps.push(harness.begin());
    }
    for (const step of steps) harness.commit(step);
    expect(order.map((index) => made[index]?.generatedTokens)).toEqual([...order.keys()]);
    expect(harness.cache.poolStats().held).toBe(0);
  });

  test("a stop string or a failed grammar ends a sequence with its reason (V 5.2 (S21))", () => {
    const harness = new Harness();
    const [text, other] = harness.addLengths(10, 10);
    const grammar = harness.add(distinct(5, 10), { awaitsGrammar: true });
    harness.step();
    harness.scheduler.finish(idOf(text), { reason: "stop", stopReason: "\n\n" });
    harness.scheduler.finish(grammar.id, { reason: "error", stopReason: null });
    expect(text?.state).toEqual({ phase: "finished", reason: "stop", stopReason: "\n\n" });
    expect(grammar.state).toMatchObject({ reason: "error" });
    expect(sequences(harness.step())).toEqual([other]);
  });
});

describe("[SC10] steps begun before the last one is committed", () => {
  test("V 5.2 (S4): a preempted sequence keeps its late token", () => {
    const harness = new Harness({ stepTokensMax: 100, blocks: 10, prefixCaching: false });
    const first = harness.add(distinct(1, 80));
    const one = harness.begin();
    const second = harness.add(distinct(2, 80));
    const two = harness.begin();
    expect([counts(one), counts(two)]).toEqual([[80], [80]]);
    harness.commit(one);
    const three = harness.begin();
    expect(preempted(three)).toEqual([second]);
    expect(sequences(three)).toEqual([first]);
    harness.scheduler.abort(first.id);
    expect(harness.scheduler.plan().items).toEqual([]);
    const [late] = harness.commit(two, () => [42]);
    expect(late).toMatchObject({ sequence: second, tokenIds: [42] });
    expect(second.state.phase).toBe("waiting");
    expect([...second.tokens.view(80)]).toEqual([42]);
    harness.commit(three);
    expect(harness.step().items).toMatchObject([{ sequence: second, start: 0, count: 81 }]);
  });

  test("V 5.2 (S20): a sequence is not planned again before its token is there", () => {
    const harness = new Harness({ stepTokensMax: 1024 });
    const first = harness.add(distinct(1, 512));
    const one = harness.begin();
    const second = harness.add(distinct(2, 512));
    const two = harness.begin();
    expect(sequences(two)).toEqual([second]);
    expect(harness.scheduler.plan().items).toEqual([]);
    harness.commit(one);
    expect(harness.scheduler.plan().items).toMatchObject([{ sequence: first, count: 1 }]);
    expect(() => harness.commit(one)).toThrow("began earlier");
    harness.commit(two);
  });

  test.for([1, 2, 3])(
    "[SC14] V 5.2 (S14): no token is computed in vain, %i steps ahead",
    (ahead) => {
      const harness = new Harness({ overlapSteps: true });
      const wanted = [3, 1, 7];
      const made = wanted.map((maxTokens, index) =>
        harness.add(distinct(index + 1, 20 + index), { stop: { maxTokens } }),
      );
      const steps = [];
      let tokens = 0;
      for (let idle = 0; idle <= ahead; ) {
        const plan = harness.begin();
        steps.push(plan);
        tokens += plan.tokens;
        idle = plan.items.length === 0 ? idle + 1 : 0;
        const oldest = steps.length > ahead ? steps.shift() : undefined;
        if (oldest !== undefined) harness.commit(oldest);
      }
      expect(made.map((sequence) => sequence.generatedTokens)).toEqual(wanted);
      expect(tokens).toBe(20 + 21 + 22 + (3 + 1 + 7) - 3);
    },
  );

  test.for([1, 4])(
    "V 5.2 (S17): under pressure every token arrives once, %i steps ahead",
    (ahead) => {
      const harness = new Harness({ blocks: 4, overlapSteps: true });
      const drawn = new Map<number, number[]>();
      let made = 0;
      const steps = [];
      let preemptedInFlight = 0;
      for (let turn = 0; turn < 1000; turn++) {
        if (made < 8 && turn % 3 === 0) {
          harness.add(distinct(++made, 8), { stop: { maxTokens: 24 } });
        }
        const plan = harness.begin();
        preemptedInFlight += preempted(plan).filter(
          (sequence) => sequence.awaitedTokens > 0,
        ).length;
        steps.push(plan);
        const oldest = steps.length > ahead ? steps.shift() : undefined;
        if (oldest === undefined) continue;
        const updates = harness.commit(oldest, ({ start, count }) => [start + count]);
        for (const { sequence, tokenIds } of updates) {
          drawn.set(sequence.id, [...(drawn.get(sequence.id) ?? []), ...tokenIds]);
        }
      }
      for (const step of steps) harness.commit(step);
      expect(preemptedInFlight).toBeGreaterThan(0);
      const all = Array.from({ length: 24 }, (_, index) => 8 + index);
      expect([...drawn.values()]).toEqual(Array.from({ length: 8 }, () => all));
      expect(harness.cache.poolStats().held).toBe(0);
    },
  );

  test("steps are committed in the order they began", () => {
    const harness = new Harness();
    harness.addLengths(10);
    harness.begin();
    harness.addLengths(10);
    const second = harness.begin();
    expect(() => harness.scheduler.commit(second, [[7]], 0)).toThrow("began earlier");
  });
});

describe("[SC13] a step that throws", () => {
  test("ends its sequences and no others", () => {
    const harness = new Harness({ stepTokensMax: 64, runningSequencesMax: 2 });
    const [first, second, third] = harness.addLengths(40, 20, 30);
    const plan = harness.begin();
    expect(sequences(plan)).toEqual([first, second]);
    expect(harness.scheduler.fail(plan)).toEqual([first, second]);
    harness.scheduler.audit();
    expect(first?.state).toMatchObject({ phase: "finished", reason: "error" });
    expect(harness.scheduler.stats()).toMatchObject({ heldBlocks: 0, cachedBlocks: 0, waiting: 1 });
    expect(sequences(harness.step())).toEqual([third]);
  });

  test("forgets what it made known, and keeps what was known before", () => {
    const harness = new Harness({ stepTokensMax: 64 });
    const prompt = distinct(1, 100);
    const sequence = harness.add(prompt);
    harness.step();
    const plan = harness.begin();
    harness.scheduler.abort(sequence.id);
    expect(harness.scheduler.fail(plan)).toEqual([]);
    harness.scheduler.audit();
    expect(harness.cache.match("", Int32Array.from(prompt)).blocks.length).toBe(4);
  });

  test("ends the steps begun behind it too, and not those before", () => {
    const harness = new Harness();
    const first = harness.add(distinct(1, 40));
    const one = harness.begin();
    const second = harness.add(distinct(2, 40));
    const two = harness.begin();
    const third = harness.add([...distinct(2, 40), 5]);
    const three = harness.begin();
    expect(third.cachedTokens).toBe(32);
    expect(harness.scheduler.fail(two)).toEqual([third, second]);
    expect(() => harness.commit(three)).toThrow("began earlier");
    harness.commit(one);
    expect(first.generatedTokens).toBe(1);
    expect(harness.cache.match("", Int32Array.from(distinct(2, 40))).blocks).toEqual([]);
  });
});

describe("[SC15] statistics", () => {
  test("V 5.2 (S18): a sequence that waited several steps counts once", () => {
    const harness = new Harness({ blocks: 4 });
    const first = harness.add(distinct(1, 40));
    harness.step();
    harness.add(distinct(2, 40));
    for (let step = 0; step < 3; step++) harness.step();
    expect(harness.scheduler.stats()).toMatchObject({ waiting: 1, prefixQueriedTokens: 40 });
    harness.scheduler.abort(first.id);
    harness.step();
    expect(harness.scheduler.stats().prefixQueriedTokens).toBe(80);
  });

  test("V 5.1 (24): a return after preemption looks again, and counts apart", () => {
    const harness = new Harness({ blocks: 6 });
    const sequence = harness.add(distinct(1, 40));
    harness.step();
    harness.scheduler.preemptAll();
    harness.scheduler.audit();
    const plan = harness.step();
    expect(plan.items).toMatchObject([{ sequence, start: 32, count: 9 }]);
    expect(harness.scheduler.stats()).toMatchObject({
      prefixQueriedTokens: 40,
      prefixHitTokens: 0,
      preemptedQueriedTokens: 41,
      preemptedHitTokens: 32,
      preemptions: 1,
    });
    expect([sequence.cachedTokens, sequence.preemptions]).toEqual([0, 1]);
  });
});

test("[SC6] V 5.2 (S16): all running wait again in order, and the cache resets", () => {
  const harness = new Harness();
  const made = harness.addLengths(...Array.from({ length: 10 }, () => 20));
  harness.step();
  expect(harness.scheduler.resetPrefixCache()).toBe(false);
  harness.scheduler.preemptAll();
  expect(harness.scheduler.resetPrefixCache()).toBe(true);
  const plan = harness.step();
  expect(sequences(plan)).toEqual(made);
  expect(counts(plan)).toEqual(made.map(() => 21));
});

test("[SC3] V 5.2 (S23): after all have ended nothing is left", () => {
  const harness = new Harness({ blocks: 12, stepTokensMax: 32 });
  for (let seed = 1; seed <= 20; seed++) {
    harness.add(distinct(seed % 7, 10 + seed), { stop: { maxTokens: 1 + (seed % 50) } });
  }
  harness.drain();
  const { running, waiting, heldBlocks, freeBlocks, cachedBlocks } = harness.scheduler.stats();
  expect([running, waiting, heldBlocks]).toEqual([0, 0, 0]);
  expect(freeBlocks + cachedBlocks).toBe(12);
  expect(harness.scheduler.resetPrefixCache()).toBe(true);
  expect(harness.cache.poolStats().free).toBe(12);
});

test("times are taken from the engine's clock, once", () => {
  const harness = new Harness({ stepTokensMax: 32 });
  const sequence = harness.add(distinct(1, 40), { arrivalMs: 0.5 });
  harness.step();
  harness.step();
  harness.step();
  expect([sequence.firstScheduledMs, sequence.firstTokenMs]).toEqual([1, 4]);
});
