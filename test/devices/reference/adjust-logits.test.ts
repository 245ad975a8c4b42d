import { expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { floats, integers, read, words } from "./sources.ts";

const device = new ReferenceDevice();

interface Entry {
  readonly token: number;
  readonly bias?: number;
  readonly count?: number;
}

interface Case {
  readonly repetition?: number;
  readonly frequency?: number;
  readonly presence?: number;
  /** Bits of tokens 0 to 3; undefined: no mask. */
  readonly allowed?: number;
}

/** Logits [2, -2, 1, 0] with `entries`. */
async function adjusted(entries: readonly Entry[], given: Case = {}): Promise<number[]> {
  const logits = floats(device, [1, 4], [2, -2, 1, 0]);
  const out = device.allocate("f32", [1, 4]);
  device.adjustLogits({
    ...{ count: 1, out, logits },
    entryStarts: integers(device, [0, entries.length]),
    entryTokens: integers(
      device,
      entries.map(({ token }) => token),
    ),
    entryBias: floats(
      device,
      [entries.length],
      entries.map(({ bias = 0 }) => bias),
    ),
    entryCounts: integers(
      device,
      entries.map(({ count = 0 }) => count),
    ),
    repetitionPenalty: floats(device, [1], [given.repetition ?? 1]),
    frequencyPenalty: floats(device, [1], [given.frequency ?? 0]),
    presencePenalty: floats(device, [1], [given.presence ?? 0]),
    ...(given.allowed !== undefined && {
      allowed: words(device, [1, 1], [given.allowed]),
      allowedRows: integers(device, [1]),
    }),
  });
  return read(device, out);
}

test("a bias is added, and -Infinity forbids", async () => {
  const entries = [
    { token: 1, bias: 5 },
    { token: 2, bias: Number.NEGATIVE_INFINITY },
  ];
  expect(await adjusted(entries)).toEqual([2, 3, Number.NEGATIVE_INFINITY, 0]);
});

test("repetition divides what is positive and multiplies what is not, prompt included", async () => {
  const entries = [
    { token: 0, count: -1 },
    { token: 1, count: 3 },
  ];
  expect(await adjusted(entries, { repetition: 2 })).toEqual([1, -4, 1, 0]);
});

test("frequency counts, presence does not, and neither looks at the prompt", async () => {
  const entries = [
    { token: 0, count: -1 },
    { token: 1, count: 3 },
    { token: 2, bias: 0, count: 0 },
  ];
  const given = { frequency: 0.5, presence: 1 };
  expect(await adjusted(entries, given)).toEqual([2, -4.5, 1, 0]);
});

test("the bias comes before the repetition penalty", async () => {
  expect(await adjusted([{ token: 1, bias: 6, count: 1 }], { repetition: 2 })).toEqual([
    2, 2, 1, 0,
  ]);
});

test("a mask forbids what has no bit", async () => {
  const none = Number.NEGATIVE_INFINITY;
  expect(await adjusted([], { allowed: 0b0101 })).toEqual([2, none, 1, none]);
});
