import { describe, expect, test } from "vitest";
import { counts, distinct, Harness, idOf, preempted, sequences } from "./harness.ts";

describe("[SC1] one budget of tokens per step", () => {
  test("V 5.2 (S1): ten requests start in the first step", () => {
    const harness = new Harness();
    harness.addLengths(...Array.from({ length: 10 }, () => 20));
    expect(counts(harness.step())).toEqual(Array.from({ length: 10 }, () => 20));
    expect(harness.scheduler.stats()).toMatchObject({ running: 10, waiting: 0 });
  });

  test("V 5.2 (S2): long prompts are cut at the threshold, then at the budget", () => {
    const harness = new Harness({ stepTokensMax: 1024, longPrefillTokensMax: 400 });
    harness.addLengths(800, 800, 800);
    expect(counts(harness.step())).toEqual([400, 400, 224]);
    expect(counts(harness.step())).toEqual([400, 400, 224]);
    expect(counts(harness.step())).toEqual([1, 1, 352]);
  });

  test("V 5.2 (S3): with chunks two prompts start, and the second is cut", () => {
    const harness = new Harness({ stepTokensMax: 1024, runningSequencesMax: 3 });
    harness.addLengths(800, 800, 10, 10);
    expect(counts(harness.step())).toEqual([800, 224]);
  });

  test("[SC5] V 5.2 (S3): without chunks one starts, and short ones do not overtake", () => {
    const harness = new Harness({
      stepTokensMax: 1024,
      runningSequencesMax: 3,
      chunkedPrefill: false,
      modelContext: 1000,
    });
    harness.addLengths(800, 800, 10, 10);
    expect(counts(harness.step())).toEqual([800]);
    expect(counts(harness.step())).toEqual([1, 800, 10]);
    expect(counts(harness.step())).toEqual([1, 1, 1]);
  });

  test("V 5.3 (V7): a short prompt's rest fits beside a decoding sequence", () => {
    const harness = new Harness({ stepTokensMax: 64 });
    harness.addLengths(60, 60);
    expect(counts(harness.step())).toEqual([60, 4]);
    expect(counts(harness.step())).toEqual([1, 56]);
  });

  test("only the chunk that reaches the newest token samples one", () => {
    const harness = new Harness({ stepTokensMax: 64 });
    harness.addLengths(100);
    expect(harness.step().items.map((item) => item.samples)).toEqual([false]);
    expect(harness.step().items.map((item) => item.samples)).toEqual([true]);
  });
});

describe("[SC2] plan changes nothing", () => {
  test("planning twice gives the same, under pressure too", () => {
    const harness = new Harness({ blocks: 6, runningSequencesMax: 3 });
    harness.addLengths(40, 30, 20, 10);
    for (let step = 0; step < 40; step++) {
      const before = harness.scheduler.stats();
      const first = harness.scheduler.plan();
      expect(harness.scheduler.plan()).toEqual(first);
      expect(harness.scheduler.stats()).toEqual(before);
      harness.scheduler.audit();
      harness.step();
    }
  });

  test("a plan of another state is not carried out", () => {
    const harness = new Harness();
    harness.addLengths(10);
    const plan = harness.scheduler.plan();
    harness.addLengths(10);
    expect(() => harness.scheduler.begin(plan, 0)).toThrow("another state");
  });
});

describe("[SC8] sharing", () => {
  test("V 5.2 (S12): equal prompts of one step are computed once, later ones too", () => {
    const harness = new Harness();
    const prompt = distinct(1, 100);
    const made = [harness.add(prompt), harness.add(prompt)];
    const plan = harness.step();
    expect(counts(plan)).toEqual([100, 4]);
    expect(plan.items[1]?.start).toBe(96);
    const [first, second] = made.map((sequence) => [...sequence.blockTable.view()]);
    expect(second?.slice(0, 6)).toEqual(first?.slice(0, 6));
    harness.add(prompt);
    expect(counts(harness.step())).toEqual([1, 1, 4]);
  });

  test("a prompt shares what is stored and, behind it, what the step computes", () => {
    const harness = new Harness({ stepTokensMax: 100 });
    const prompt = distinct(1, 200);
    const first = harness.add(prompt);
    harness.step();
    const second = harness.add(prompt);
    const third = harness.add([...prompt.slice(0, 50), ...distinct(2, 50)]);
    const plan = harness.scheduler.plan();
    expect(counts(plan)).toEqual([100]);
    harness.scheduler.abort(first.id);
    const next = harness.step();
    expect(sequences(next)).toEqual([second]);
    expect(next.items[0]?.start).toBe(96);
    const last = harness.step();
    expect(last.items.map((item) => [item.sequence, item.start])).toEqual([
      [second, 196],
      [third, 48],
    ]);
  });

  test("[SC8] V 5.1 (2): one that skips reading computes everything, but others read it", () => {
    const harness = new Harness();
    const prompt = distinct(1, 100);
    harness.add(prompt, { skipReadingPrefixCache: true });
    harness.add(prompt, { skipReadingPrefixCache: true });
    harness.add(prompt);
    expect(counts(harness.step())).toEqual([100, 100, 4]);
  });

  test("salts do not share within a step", () => {
    const harness = new Harness();
    const prompt = distinct(1, 100);
    for (const cacheSalt of ["a", "b", null, "a"]) harness.add(prompt, { cacheSalt });
    expect(counts(harness.step())).toEqual([100, 100, 100, 4]);
  });

  test("V 5.2 (S13): a second turn computes what does not fill a block of the first", () => {
    const harness = new Harness({ blocks: 50 });
    const first = harness.add(distinct(1, 100), { stop: { maxTokens: 200 } });
    harness.drain();
    expect(first.tokens.length).toBe(300);
    const second = harness.add([...first.tokens.view()]);
    expect(counts(harness.step())).toEqual([300 % 16]);
    expect(second.cachedTokens).toBe(288);
  });

  test("with caching off nothing is shared", () => {
    const harness = new Harness({ prefixCaching: false });
    const prompt = distinct(1, 100);
    harness.add(prompt);
    harness.add(prompt);
    expect(counts(harness.step())).toEqual([100, 100]);
  });
});

describe("[SC6] preemption", () => {
  test("[SC9] V 5.2 (S9): the least urgent is preempted, even if planned already", () => {
    const harness = new Harness({ policy: "priority", blocks: 5 });
    const low = harness.add(distinct(1, 32), { priority: 5 });
    harness.step();
    const high = harness.add(distinct(2, 32), { priority: 0 });
    harness.step();
    expect(harness.cache.availableBlocks).toBe(0);
    const plan = harness.step();
    expect(preempted(plan)).toEqual([low]);
    expect(sequences(plan)).toEqual([high]);
    expect(plan.tokens).toBe(1);
    expect(low.state.phase).toBe("waiting");
  });

  test("[SC9] the tokens and blocks of one that was planned already go to others", () => {
    const harness = new Harness({ policy: "priority", blocks: 5, prefixCaching: false });
    const low = harness.add(distinct(1, 31), { priority: 5 });
    harness.step();
    const high = harness.add(distinct(2, 32), { priority: 0 });
    harness.step(({ sequence }) => (sequence === high ? distinct(3, 40) : [7]));
    const plan = harness.begin();
    expect(preempted(plan)).toEqual([low]);
    expect(plan.items).toMatchObject([{ sequence: high, start: 32, count: 40 }]);
    expect(harness.cache.poolStats()).toMatchObject({ held: 5, free: 0 });
  });

  test("V 5.2 (S10): a preempted sequence resumes with its sampled tokens, in new blocks", () => {
    const harness = new Harness({ policy: "priority", blocks: 4, prefixCaching: false });
    const low = harness.add(distinct(1, 30), { priority: 1 });
    harness.step();
    const high = harness.add(distinct(2, 32), { priority: 0, stop: { maxTokens: 2 } });
    harness.step();
    expect(harness.cache.availableBlocks).toBe(0);
    const third = harness.step();
    expect(preempted(third)).toEqual([low]);
    expect(sequences(third)).toEqual([high]);
    expect(high.finished).toBe(true);
    const fourth = harness.step();
    expect(fourth.items.map(({ sequence, start, count }) => [sequence, start, count])).toEqual([
      [low, 0, 32],
    ]);
    expect(low.blockTable.length).toBe(2);
    expect(low.generatedTokens).toBe(3);
  });

  test("[SC9] V 5.2 (S11): of equal priorities the later arrival is preempted", () => {
    const harness = new Harness({ policy: "priority", blocks: 4 });
    const [first, second] = harness.addLengths(32, 32);
    harness.step();
    const plan = harness.step();
    expect(preempted(plan)).toEqual([second]);
    expect(sequences(plan)).toEqual([first]);
  });

  test("the latest started are preempted first, resume in order, and none starts meanwhile", () => {
    const harness = new Harness({ blocks: 6, prefixCaching: false, returnHeadroomBlocks: 0 });
    const [first, second, third] = harness.addLengths(30, 31, 31);
    harness.step();
    harness.step();
    const newcomer = harness.add(distinct(9, 5));
    const plan = harness.step();
    expect(preempted(plan)).toEqual([third]);
    expect(sequences(plan)).toEqual([first, second]);
    expect(harness.scheduler.stats()).toMatchObject({ running: 2, waiting: 2, preemptions: 1 });
    harness.scheduler.abort(idOf(second));
    expect(sequences(harness.step())).toEqual([first, third]);
    expect(newcomer.state.phase).toBe("waiting");
  });

  test("[SC7] V 5.3 (V6): a preempted sequence comes back when the other is aborted", () => {
    const harness = new Harness({ blocks: 2, blockTokens: 4 });
    const [a, b] = harness.addLengths(4, 4);
    harness.step();
    expect(preempted(harness.step())).toEqual([b]);
    harness.scheduler.abort(idOf(a));
    expect(harness.step().items).toMatchObject([{ sequence: b, start: 0, count: 5 }]);
  });
});

describe("[SC7] admission", () => {
  test("the whole prompt must fit, beside what prompts under way will yet take", () => {
    const harness = new Harness({ blocks: 10, stepTokensMax: 64, longPrefillTokensMax: 16 });
    const [first, second] = harness.addLengths(112, 64);
    for (let step = 0; step < 5; step++) expect(sequences(harness.step())).toEqual([first]);
    harness.scheduler.abort(idOf(first));
    expect(sequences(harness.step())).toEqual([second]);
  });

  test("hits that are not held count as taken", () => {
    const harness = new Harness({ blocks: 10 });
    const part = distinct(1, 48);
    const six = harness.add([...part, ...part], { stop: { maxTokens: 1 } });
    harness.step();
    expect(six.finished).toBe(true);
    const holder = harness.add(part);
    harness.add(distinct(2, 32));
    harness.step();
    expect(holder.cachedTokens).toBe(32);
    const refused = harness.add([...part, ...part, ...part]);
    harness.begin();
    expect(refused.state.phase).toBe("waiting");
  });
});

describe("[SC29] prompts beside sequences that decode", () => {
  const beside = (harness: Harness, most: number) => {
    const plan = harness.scheduler.plan(most);
    harness.scheduler.begin(plan, ++harness.nowMs);
    harness.commit(plan);
    return counts(plan);
  };

  test("share what a step may have of them, in order", () => {
    const harness = new Harness();
    harness.addLengths(20, 100, 30);
    expect(beside(harness, 48)).toEqual([20, 100, 30]);
    harness.add(distinct(7, 100));
    harness.add(distinct(8, 30));
    expect(beside(harness, 52)).toEqual([1, 1, 1, 52]);
    expect(beside(harness, 64)).toEqual([1, 1, 1, 48, 16]);
    expect(beside(harness, 8)).toEqual([1, 1, 1, 1, 8]);
    expect(beside(harness, 8)).toEqual([1, 1, 1, 1, 6]);
  });

  test("get their share of each step where many wait, or many decode", () => {
    const harness = new Harness({ runningSequencesMax: 6 });
    harness.addLengths(20, 20, 20, 20);
    expect(beside(harness, 100)).toEqual([20, 20, 20, 20]);
    // Two of these find a seat: two of six that there are to compute, a third of 1,600 tokens.
    for (let seed = 10; seed < 20; seed++) harness.add(distinct(seed, 800));
    expect(beside(harness, 200)).toEqual([1, 1, 1, 1, 534]);
    expect(beside(harness, 50).slice(0, 4)).toEqual([1, 1, 1, 1]);
    expect(beside(harness, 8).slice(4)).toEqual([32]);

    const many = new Harness({ runningSequencesMax: 31 });
    many.addLengths(...new Array(12).fill(20));
    beside(many, 8);
    many.add(distinct(30, 30));
    expect(beside(many, 2).at(-1)).toBe(12);
    for (let seed = 40; seed < 64; seed++) many.add(distinct(seed, 100));
    expect(beside(many, 2).slice(12)).toEqual([12]);
  });

  test("come as fast as they can where they and those that decode are a crowd", () => {
    const harness = new Harness({ runningSequencesMax: 64, blocks: 64 });
    harness.addLengths(...new Array(8).fill(20));
    beside(harness, 8);
    for (let seed = 40; seed < 63; seed++) harness.add(distinct(seed, 10));
    expect(beside(harness, 2).slice(8)).toEqual([8]);
    harness.add(distinct(64, 10));
    expect(beside(harness, 2).slice(8)).toEqual([2, ...new Array(23).fill(10)]);
  });

  test("come whole where they cannot be cut, and where those that decode are paused", () => {
    const whole = new Harness({ chunkedPrefill: false });
    whole.addLengths(20);
    expect(beside(whole, 8)).toEqual([20]);
    whole.add(distinct(7, 100));
    expect(beside(whole, 8)).toEqual([1, 100]);

    const paused = new Harness();
    const [reader] = paused.addLengths(20);
    expect(beside(paused, 8)).toEqual([20]);
    if (reader !== undefined) paused.scheduler.pause(reader.group);
    paused.add(distinct(7, 100));
    expect(beside(paused, 8)).toEqual([100]);
  });
});

describe("[SC30] a held sequence", () => {
  test("computes nothing until it is not held any more, and the others go on", () => {
    const harness = new Harness();
    const [held, other] = harness.addLengths(20, 30);
    harness.step();
    if (held === undefined || other === undefined) return expect.fail();
    held.held = true;
    for (let step = 0; step < 3; step++) expect(sequences(harness.step())).toEqual([other]);
    expect(harness.scheduler.stats()).toMatchObject({ running: 2, heldBlocks: 5 });
    held.held = false;
    expect(sequences(harness.step())).toEqual([held, other]);
    expect([held, other].map(({ tokens }) => tokens.length)).toEqual([22, 35]);
  });

  test("is preempted like others, and resumes when there is room", () => {
    const harness = new Harness({ blocks: 4, preemption: "recompute" });
    const [first, held] = harness.addLengths(30, 30);
    harness.step();
    if (first === undefined || held === undefined) return expect.fail();
    held.held = true;
    while (held.preemptions === 0) harness.step();
    expect(harness.scheduler.stats()).toMatchObject({ running: 1, waiting: 1 });
    harness.scheduler.abort(first.id);
    held.held = false;
    expect(sequences(harness.step())).toEqual([held]);
  });
});
