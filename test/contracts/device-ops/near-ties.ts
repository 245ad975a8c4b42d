/** Races whose two best keys are some units in the last place of f64 apart, or equal. */
import { expect, test } from "vitest";
import { gumbelAt, type Seed } from "#base";
import type { DevicePair } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

const vocabulary = 4099;

const settings = [
  { temperature: 1, topK: 0, topP: 1, minP: 0 },
  { temperature: 0.5, topK: 0, topP: 1, minP: 0 },
  { temperature: 1, topK: 2, topP: 1, minP: 0 },
  { temperature: 1, topK: 0, topP: 0.9999, minP: 0 },
  { temperature: 1, topK: 0, topP: 1, minP: 1e-8 },
] as const;

interface NearTie {
  readonly tokens: readonly [number, number];
  /** Scaled. */
  readonly logits: readonly [number, number];
  /** The first one's key is larger, equal or smaller. */
  readonly order: number;
}

/** Logits of two tokens whose keys differ by about `step`. */
function nearTie(random: RandomNumbers, seed: Seed, position: number, step: number): NearTie {
  const first = random.below(vocabulary - 1);
  const second = first + 1 + random.below(vocabulary - 1 - first);
  const [one, other] = [first, second].map((token) => gumbelAt(seed, position, token));
  const lead = (one ?? 0) - (other ?? 0);
  // Near 0, f32 has the digits that the second logit lacks.
  const logits = [Math.fround(Math.fround(lead) - lead + step), Math.fround(lead)] as const;
  const order = Math.sign(logits[0] + (one ?? 0) - (logits[1] + (other ?? 0)));
  return { tokens: [first, second], logits, order };
}

/** sample, where f32 cannot decide; more than 100 rows have ties of each kind. */
export function nearTieContract(pair: () => DevicePair, rows = 160): void {
  test("sample: of keys that nearly tie the larger one wins, of equal ones the lower id", async () => {
    const random = new RandomNumbers(77);
    const words = Array.from({ length: 2 * rows }, () => random.below(2 ** 32));
    const values = new Float32Array(rows * vocabulary).fill(-60);
    const of = (key: keyof (typeof settings)[number]) =>
      Array.from({ length: rows }, (_, r) => settings[r % settings.length]?.[key] ?? 0);
    const temperatures = of("temperature");
    const ties = temperatures.map((temperature, r) => {
      const seed = { low: words[2 * r] ?? 0, high: words[2 * r + 1] ?? 0 };
      const tie = nearTie(random, seed, r, ((r % 9) - 4) * 2 ** -52);
      tie.tokens.forEach((token, at) => {
        values[r * vocabulary + token] = (tie.logits[at] ?? 0) * temperature;
      });
      return tie;
    });
    const logits = pair().f32([rows, vocabulary], values);
    const [temperature, topK] = [pair().f32([rows], temperatures), pair().i32(of("topK"))];
    const [topP, minP] = [pair().f32([rows], of("topP")), pair().f32([rows], of("minP"))];
    const seeds = pair().u32(words, [rows, 2]);
    const positions = pair().i32(Array.from({ length: rows }, (_, r) => r));
    const out = pair().i32(new Int32Array(rows));
    pair().run((device, pick) => {
      device.sample({
        ...{ count: rows, logits: pick(logits), out: pick(out) },
        ...{ temperature: pick(temperature), topK: pick(topK), topP: pick(topP) },
        ...{ minP: pick(minP), seeds: pick(seeds), positions: pick(positions) },
      });
    });
    await pair().expectEqual(out);
    const found = await pair().tested.readI32(out.tested);
    expect([...found]).toEqual(ties.map(({ tokens, order }) => tokens[order < 0 ? 1 : 0]));
    // The rows are what they shall be: some of each kind.
    for (const kind of [-1, 0, 1]) {
      expect(ties.filter(({ order }) => order === kind).length).toBeGreaterThan(rows / 50);
    }
  });
}
