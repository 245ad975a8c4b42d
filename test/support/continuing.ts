/** Cuts runs of a model at any token, and compares what continues them with the rest. */
import { expect } from "vitest";
import type { GeneratedTokens, GenerateOptions, Prompt, ServedModel, StreamItem } from "#engine";

/** An undisturbed run of one prompt. */
export interface Run {
  readonly promptTokenIds: readonly number[];
  readonly options: GenerateOptions;
  readonly seed: number;
  /** By sequence. */
  readonly items: readonly (readonly StreamItem[])[];
}

/** How many items of each sequence had arrived when the first engine went away. */
export type Cut = readonly number[];

export async function run(
  model: ServedModel,
  prompt: Prompt,
  options: GenerateOptions,
  seed = 1234,
): Promise<Run> {
  const promptTokenIds =
    typeof prompt === "string"
      ? ((await model.codec?.encode(prompt)) ?? [])
      : prompt.promptTokenIds;
  const items: StreamItem[][] = Array.from({ length: options.n ?? 1 }, () => []);
  for await (const item of model.stream({ promptTokenIds, seed }, options)) {
    items[item.index]?.push(item);
  }
  return { promptTokenIds, options, seed, items };
}

/** Every sequence cut behind its first `count` items, or at its end. */
export function cutAt({ items }: Run, count: number): Cut {
  return items.map((list) => Math.min(list.length, count));
}

/** Items of the longest sequence. */
export function lengthOf({ items }: Run): number {
  return Math.max(...items.map((list) => list.length));
}

/** What the first engine's reader has of each sequence. */
export function generatedBefore({ items }: Run, cut: Cut): GeneratedTokens[] {
  return items.map((list, index) => {
    const taken = list.slice(0, cut[index]);
    const ended = taken.some(({ finishReason }) => finishReason !== null);
    return { tokenIds: taken.flatMap(({ tokenIds }) => tokenIds), ended };
  });
}

/** The run as another engine continues it; compares every token with the undisturbed one. */
export async function goOn(model: ServedModel, whole: Run, cut: Cut): Promise<StreamItem[]> {
  const generated = generatedBefore(whole, cut);
  const { promptTokenIds, seed, options, items } = whole;
  const later: StreamItem[] = [];
  for await (const item of model.stream({ promptTokenIds, seed, generated }, options)) {
    later.push(item);
  }
  for (const [index, list] of items.entries()) {
    const place = cut[index] ?? 0;
    const own = later.filter((item) => item.index === index);
    expect(summary(own), `sequence ${index} cut at ${place}`).toEqual(summary(list.slice(place)));
    const [first] = own;
    if (first === undefined || place === 0) continue;
    const before = list.slice(0, place).map(({ text }) => text);
    const text = before.includes(null) ? null : before.join("");
    expect(first.earlierText).toBe(text);
  }
  return later;
}

/** What a reader gets, however it is cut into items. */
function summary(items: readonly StreamItem[]): unknown {
  const last = items.at(-1);
  const texts = items.map(({ text }) => text);
  return {
    tokenIds: items.flatMap(({ tokenIds }) => tokenIds),
    text: texts.includes(null) ? null : texts.join(""),
    logprobs: items.flatMap(({ logprobs }) => logprobs ?? []),
    finishReason: last?.finishReason ?? null,
    stopReason: last?.stopReason ?? null,
  };
}
