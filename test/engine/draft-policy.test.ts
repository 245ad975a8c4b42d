import { describe, expect, test } from "vitest";
import { KindAcceptance, SequenceAcceptance } from "#speculative";
import { DraftPolicy } from "../../src/engine/loop/draft-policy.ts";
import { RandomNumbers } from "../contracts/device-ops/random.ts";
import { eachNth } from "../support/full.ts";

interface World {
  readonly sequences: number;
  /** ms of a step with so many drafted tokens; 0: a plain one. */
  readonly msOf: (nodes: number) => number;
  /** Chance of each drafted token behind an accepted one. */
  readonly rate: number;
  /** ms that a network takes to draft; null: drafts are looked up. */
  readonly networkMs: number | null;
  readonly steps?: number;
}

const length = 8;

/** Steps of an engine, by the clock of a world. Returns tokens a ms. */
function speedIn({ sequences, msOf, rate, networkMs, steps = 3000 }: World, off = false): number {
  const random = new RandomNumbers(9);
  const policy = new DraftPolicy(256);
  const kind = new KindAcceptance();
  const all = Array.from({ length: sequences }, () => new SequenceAcceptance(kind));
  const tokenIds = Array.from({ length }, (_, place) => place + 1);
  const depths = Int32Array.from({ length: length + 1 }, (_, depth) => depth);
  const tree = { tokens: Int32Array.of(0, ...tokenIds), depths, parents: depths.map((d) => d - 1) };
  const network = networkMs !== null;
  let [tokens, ms] = [0, 0];
  let made = !network;
  let drafts = false;
  let planned: readonly number[] = [];
  let offered: readonly number[] = all.map(() => length);
  for (let step = 0; step < steps; step++) {
    const offers =
      made && !off
        ? all.map((one, at) => one.survivals(tree, length).subarray(0, offered[at]))
        : [];
    const nodes = policy.allot(offers, { sequences, network: network && made, foresaw: false });
    const drafted = nodes.reduce((sum, count) => sum + count, 0);
    if (network && !off && policy.looks(drafts)) {
      const expected = all.map((one) => one.survivals(tree, length));
      planned = policy.drafts(expected, { sequences, foresaw: false });
      drafts = planned.some((count) => count > 0);
    }
    const took = msOf(drafted) + (drafts ? (networkMs ?? 0) : 0);
    let confirmed = 0;
    nodes.forEach((count, place) => {
      let accepted = 0;
      while (accepted < count && random.below(1000) < rate * 1000) accepted++;
      confirmed += accepted;
      if (count === 0) return;
      const output = [...tokenIds.slice(0, accepted), 99];
      all[place]?.verified({ tree, firstBranch: length, drafted: count, tokenIds: output });
    });
    tokens += sequences + confirmed;
    ms += took;
    // Each tenth step is disturbed.
    const noise = random.below(10) === 0 ? 5 : 0.95 + random.below(100) / 1000;
    policy.record(
      { sequences, drafted, network: drafts, accepted: confirmed, foresaw: false },
      took * noise,
    );
    if (network) {
      made = drafts;
      offered = planned;
    }
  }
  return tokens / ms;
}

/** Steps of so many rows, of which some are drafted. */
const worlds: Readonly<Record<string, (rows: number, drafted: number) => number>> = {
  "rows that cost nothing": () => 10,
  "a step that waits for memory": (rows) => 10 + 0.2 * rows,
  "steps that overlap unless they have drafts": (rows, drafted) =>
    (drafted === 0 ? 10 : 14) + 0.1 * rows,
  "a processor with few cores": (rows) => 6 + 4 * rows,
  "a full device": (rows) => 10 * rows,
};

describe("[SP21] what is verified", () => {
  const cases = Object.entries(worlds).flatMap(([name, world]) =>
    [1, 16, 64].flatMap((sequences) =>
      [0.02, 0.3, 0.6, 0.9].flatMap((rate) =>
        [null, 3].map((networkMs) => [name, sequences, rate, networkMs, world] as const),
      ),
    ),
  );
  // Seven has no factor in common with the sizes above: the short run has some of each.
  test.each(eachNth(7, cases))(
    "%s, %i sequences, %f accepted, network %s: no slower than plain steps",
    (_, sequences, rate, networkMs, world) => {
      const msOf = (drafted: number): number => world(sequences + drafted, drafted);
      const all = { msOf, sequences, rate, networkMs };
      expect(speedIn(all)).toBeGreaterThan(0.97 * speedIn(all, true));
    },
  );

  test("drafts that pay are made: 16 sequences on a device that waits for memory", () => {
    const world = { sequences: 16, msOf: (n: number) => 10 + 0.02 * n, rate: 0.8, networkMs: null };
    expect(speedIn(world)).toBeGreaterThan(2.5 * speedIn(world, true));
  });

  test("64 sequences learn that drafts pay, though the first few only cost the overlap", () => {
    const msOf = (nodes: number): number => (nodes === 0 ? 10 : 14 + 0.02 * nodes);
    const world = { sequences: 64, msOf, rate: 0.8, networkMs: null, steps: 1000 };
    expect(speedIn(world)).toBeGreaterThan(1.3 * speedIn(world, true));
  });

  test("a network that pays drafts: its own time included", () => {
    const world = { sequences: 1, msOf: (n: number) => 10 + 0.2 * n, rate: 0.8, networkMs: 2 };
    expect(speedIn(world)).toBeGreaterThan(2 * speedIn(world, true));
  });
});
