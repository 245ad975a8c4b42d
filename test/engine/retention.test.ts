/** What requests say of their blocks decides which are found later. */
import { expect, test } from "vitest";
import { LLM, type RetentionOptions } from "#engine";
import { parseRetention } from "#kvcache";
import { fixturePath } from "../contracts/recorded-model.ts";
import { ScriptedEngine } from "./scripted-engine.ts";

/** Blocks of four tokens, nothing below the device. */
class Retaining {
  readonly scripted: ScriptedEngine;

  constructor(blocks: number) {
    this.scripted = new ScriptedEngine({ blocks });
  }

  /** Runs one request to its end; how many of its prompt's tokens were found. */
  async ask(
    prompt: readonly number[],
    retention: RetentionOptions | null = null,
    maxTokens = 1,
  ): Promise<number> {
    const parsed = retention === null ? null : parseRetention(retention);
    this.scripted.add(prompt, { maxTokens, ignoreEos: true }, { retention: parsed });
    const steps = await this.scripted.drain();
    const outputs = steps.flatMap((step) => step.outputs);
    return outputs[0]?.prompt?.cachedTokens ?? Number.NaN;
  }
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, place) => from + place);
}

test("T 14: what is worth less goes first, from the request to the block", async () => {
  const engine = new Retaining(4);
  const [a, b, c] = [range(0, 7), range(8, 15), range(16, 23)];
  const ranges = [
    { start: 0, end: 4, priority: 90 },
    { start: 4, end: 8, priority: 10 },
  ];
  await engine.ask(a, { ranges });
  await engine.ask(b);
  await engine.ask(c, { ranges: [{ start: 0, priority: 20 }] });
  expect(await engine.ask(b)).toBe(4);
  expect(await engine.ask(a)).toBe(4);
  expect(await engine.ask(c)).toBe(0);
});

test("T 15: generated tokens have a priority of their own", async () => {
  const engine = new Retaining(8);
  const [a, b, c] = [range(0, 11), range(12, 23), range(24, 35)];
  await engine.ask(a, { ranges: [{ start: 0, priority: 90 }], decodePriority: 90 }, 2);
  await engine.ask(b, { ranges: [{ start: 0, priority: 5 }], decodePriority: 5 }, 2);
  await engine.ask(c);
  expect(await engine.ask(a)).toBe(11);
  expect(await engine.ask(b)).toBeLessThan(11);
});

test("T 16: what was to be kept for a time goes when that is over", async () => {
  const engine = new Retaining(8);
  const [a, b, c] = [range(0, 11), range(12, 23), new Array<number>(12).fill(1)];
  await engine.ask(a, { ranges: [{ start: 0, priority: 80, durationMs: 10 }] });
  await engine.ask(b, { ranges: [{ start: 0, priority: 50 }] });
  engine.scripted.nowMs += 50;
  await engine.ask(c);
  expect(await engine.ask(b)).toBe(11);
  expect(await engine.ask(a)).toBeLessThan(11);
});

test("T 16: as long as the time is not over, the others go", async () => {
  const engine = new Retaining(8);
  const [a, b, c] = [range(0, 11), range(12, 23), new Array<number>(12).fill(1)];
  await engine.ask(a, { ranges: [{ start: 0, priority: 80, durationMs: 10_000 }] });
  await engine.ask(b, { ranges: [{ start: 0, priority: 50 }] });
  engine.scripted.nowMs += 50;
  await engine.ask(c);
  expect(await engine.ask(a)).toBe(11);
});

test.for([
  [100, 39],
  [0, 0],
] as const)("of priority %i, %i tokens of a prompt survive a crowd", async ([priority, found]) => {
  const options = { device: "reference", dtype: "float32", engineThread: false } as const;
  const load = (poolBytes: number) =>
    LLM.load(fixturePath("llama"), { ...options, kvCache: { blockTokens: 4, poolBytes } });
  await using sized = await load(2 ** 20);
  await using llm = await load(24 * sized.info.bytesPerBlock);
  const prompt = { promptTokenIds: range(1, 40) };
  const one = { maxTokens: 1, temperature: 0 };
  await llm.generate(prompt, { ...one, retention: { ranges: [{ start: 0, priority }] } });
  for (let place = 0; place < 4; place++) {
    await llm.generate({ promptTokenIds: range(50 * (place + 1), 50 * (place + 1) + 39) }, one);
  }
  const [result] = await llm.generate(prompt, one);
  expect(result?.cachedTokens).toBe(found);
});
