import { describe, expect, test } from "vitest";
import { FleetSpeeds, seededRng } from "#cluster";

const pairsOf = (tokens: number) => (tokens * (tokens + 1)) / 2;
const LOAD = { heldBlocks: 0, blockTokens: 16, undisturbed: true };

/** Prompts of a worker that takes 8 ms, 0.02 ms a token and 1e-6 ms a pair, with noise. */
function serve(
  speeds: FleetSpeeds,
  id: string,
  options: { seed: number; factor?: number; noise?: number; count?: number },
): void {
  const { seed, factor = 1, noise = 0.2, count = 300 } = options;
  const rng = seededRng(seed);
  for (let turn = 0; turn < count; turn++) {
    const tokens = Math.ceil(20 * 2 ** (rng.next() * 11));
    const pairs = pairsOf(tokens);
    const ms = (8 + 0.02 * tokens + 1e-6 * pairs) * factor;
    speeds.prefilled(id, { tokens, pairs }, ms * (1 + noise * (2 * rng.next() - 1)));
  }
}

describe("prompts", () => {
  test.for([1, 2, 3])("[CL68] the time of tokens and of pairs is told apart (seed %i)", (seed) => {
    const speeds = new FleetSpeeds();
    speeds.joined("a", "m");
    serve(speeds, "a", { seed });
    const { prefillMsPerToken, prefillMsPerPair = 0 } = speeds.speedsOf("a");
    expect(prefillMsPerToken).toBeGreaterThan(0.014);
    expect(prefillMsPerToken).toBeLessThan(0.026);
    expect(prefillMsPerPair).toBeGreaterThan(0.3e-6);
    expect(prefillMsPerPair).toBeLessThan(1.7e-6);
  });

  test("[CL68] a pause of a minute moves the estimate little", () => {
    const speeds = new FleetSpeeds();
    serve(speeds, "a", { seed: 1 });
    const before = speeds.speedsOf("a").prefillMsPerToken;
    speeds.prefilled("a", { tokens: 1000, pairs: pairsOf(1000) }, 60_000);
    speeds.prefilled("a", { tokens: 1000, pairs: pairsOf(1000) }, Number.NaN);
    serve(speeds, "a", { seed: 2, count: 20 });
    const after = speeds.speedsOf("a").prefillMsPerToken;
    expect(Math.abs(after / before - 1)).toBeLessThan(0.5);
  });

  test("[CL68] equal workers have exactly equal speeds, whatever the noise; others their own", () => {
    const speeds = new FleetSpeeds();
    for (const id of ["a", "b", "c", "d", "slow"]) speeds.joined(id, "m");
    for (let round = 0; round < 6; round++) {
      for (const [at, id] of ["a", "b", "c", "d"].entries()) {
        serve(speeds, id, { seed: 10 * round + at, noise: 0.05, count: 50 });
      }
      serve(speeds, "slow", { seed: 100 + round, factor: 3, noise: 0.05, count: 10 });
    }
    const ms = (id: string) => speeds.speedsOf(id).prefillMsPerToken;
    expect(ms("a")).toBe(ms("b"));
    expect(ms("slow") / ms("a")).toBeGreaterThan(2);
    expect(ms("unknown")).toBeGreaterThan(0);
  });

  test("[CL171] a worker that was slow at its start is like the others soon, though it got nothing", () => {
    let ms = 0;
    const speeds = new FleetSpeeds({ nowMs: () => ms });
    for (const id of ["a", "b", "c"]) speeds.joined(id, "m");
    for (let round = 0; round < 10; round++) {
      for (const [at, id] of ["a", "b"].entries()) {
        serve(speeds, id, { seed: 10 * round + at, count: 10 });
      }
      serve(speeds, "c", { seed: 100 + round, factor: 3, count: 10 });
      ms += 1000;
    }
    const isAlike = () => speeds.speedsOf("c") === speeds.speedsOf("a");
    expect(isAlike()).toBe(false);
    ms += 180_000;
    expect(isAlike()).toBe(true);
    // Tried again, it is as quick as they are, or still slow: some prompts tell.
    serve(speeds, "c", { seed: 200, count: 20 });
    expect(isAlike()).toBe(true);
    for (const [at, id] of ["a", "b"].entries()) serve(speeds, id, { seed: 300 + at, count: 60 });
    serve(speeds, "c", { seed: 201, factor: 3, count: 40 });
    expect(isAlike()).toBe(false);
  });

  test.for([1, 2, 3, 4])(
    "[CL171] times that vary widely tell no workers apart (seed %i)",
    (seed) => {
      const speeds = new FleetSpeeds();
      const rng = seededRng(seed);
      const ids = Array.from({ length: 8 }, (_, at) => `w${at}`);
      for (const id of ids) speeds.joined(id, "m");
      for (let turn = 0; turn < 2000; turn++) {
        const id = ids[Math.floor(rng.next() * ids.length)] ?? "";
        const tokens = Math.ceil(20 * 2 ** (rng.next() * 11));
        // Half of them wait for something that the router does not see.
        const wait = rng.next() < 0.5 ? 1 : 1 + 3 * rng.next();
        speeds.prefilled(id, { tokens, pairs: pairsOf(tokens) }, (8 + 0.02 * tokens) * wait);
        expect(new Set(ids.map((each) => speeds.speedsOf(each))).size).toBe(1);
      }
    },
  );

  test("[CL68] a worker's own measurement goes before what is seen from outside", () => {
    const speeds = new FleetSpeeds();
    serve(speeds, "a", { seed: 1 });
    const own = { prefillMsPerToken: 1, decodeMs: () => 3, loadMsPerToken: [0.1, 0.2] as const };
    speeds.told("a", own);
    expect(speeds.speedsOf("a").prefillMsPerToken).toBe(1);
    expect(speeds.speedsOf("a").decodeMs(1, 1)).toBe(3);
    speeds.told("a", null);
    expect(speeds.speedsOf("a").prefillMsPerToken).toBeLessThan(0.1);
  });
});

/**
 * A line of prompts, each begun in the last step of the one before it: a part of its work is done
 * when that one's first token comes, and `overlap` of its time is over then.
 */
function serveLine(speeds: FleetSpeeds, lengths: readonly number[], overlap: number): void {
  lengths.forEach((tokens, place) => {
    const ms = 5 + 0.02 * tokens;
    const early = place > 0 ? overlap * ms : 0;
    const next = lengths[place + 1];
    const late = next === undefined ? 0 : overlap * (5 + 0.02 * next);
    const work = { tokens, pairs: pairsOf(tokens), follows: place > 0 };
    speeds.prefilled("a", work, ms - early + late);
  });
}

test.for([2, 5, 40])("[CL180] prompts in a line are measured together (%i in each)", (length) => {
  const speeds = new FleetSpeeds();
  const rng = seededRng(length);
  for (let line = 0; line < 400; line++) {
    // Short ones behind long ones: alone, they would seem to take a third of their time.
    const lengths = Array.from({ length }, (_, place) =>
      Math.ceil((place % 2 === 0 ? 7000 : 1200) * (0.7 + 0.6 * rng.next())),
    );
    serveLine(speeds, lengths, 0.7);
    speeds.prefilled("a", { tokens: 3000, pairs: pairsOf(3000) }, 65);
  }
  const { prefillMsPerToken, prefillMsPerPair = 0 } = speeds.speedsOf("a");
  const ms = (tokens: number) => tokens * prefillMsPerToken + pairsOf(tokens) * prefillMsPerPair;
  expect(ms(7200) / (0.02 * 7200)).toBeGreaterThan(0.95);
  expect(ms(7200) / (0.02 * 7200)).toBeLessThan(1.05);
});

test("[CL181] one prompt of ten that takes a quarter of its time hardly moves the estimate", () => {
  const speeds = new FleetSpeeds();
  const rng = seededRng(9);
  for (let turn = 0; turn < 2000; turn++) {
    const tokens = Math.ceil(2000 + 6000 * rng.next());
    // More was cached than was known.
    const part = rng.next() < 0.1 ? 0.25 : 1;
    speeds.prefilled("a", { tokens, pairs: 0 }, (5 + 0.02 * tokens) * part);
  }
  expect(speeds.speedsOf("a").prefillMsPerToken / 0.02).toBeGreaterThan(0.85);
  expect(speeds.speedsOf("a").prefillMsPerToken / 0.02).toBeLessThan(1.1);
});

test("[CL68] the time of a step is told by requests and context", () => {
  const speeds = new FleetSpeeds();
  const rng = seededRng(5);
  for (let turn = 0; turn < 400; turn++) {
    const requests = 1 + Math.floor(rng.next() * 60);
    const heldBlocks = Math.floor(rng.next() * 20_000);
    const stepMs = 5 + 0.05 * requests + 0.00004 * heldBlocks * 16;
    const ms = 16 * stepMs * (0.9 + 0.2 * rng.next());
    speeds.decoded("a", ms, 16, { ...LOAD, requests, heldBlocks });
    speeds.decoded("a", 90 * ms, 16, { ...LOAD, requests, heldBlocks, undisturbed: false });
  }
  const { decodeMs } = speeds.speedsOf("a");
  expect(decodeMs(1, 0)).toBeGreaterThan(4);
  expect(decodeMs(1, 0)).toBeLessThan(6.5);
  expect(decodeMs(40, 200_000) / (5 + 2 + 8)).toBeGreaterThan(0.85);
  expect(decodeMs(40, 200_000) / (5 + 2 + 8)).toBeLessThan(1.15);
});
