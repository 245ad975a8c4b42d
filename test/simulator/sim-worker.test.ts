import { describe, expect, test } from "vitest";
import type { KvChange } from "#cluster";
import { costPreset, SimClock, type SimOutcome, SimWorker, type SimWorkerParts } from "#simulator";

const model = costPreset("h200-8b");

function prompt(seed: number, tokens: number): Int32Array {
  return Int32Array.from({ length: tokens }, (_, place) => (seed * 7919 + place * 31) % 4000);
}

interface Fleet {
  readonly clock: SimClock;
  readonly worker: SimWorker;
  readonly outcomes: SimOutcome[];
  readonly changes: KvChange[];
}

function start(parts: Partial<SimWorkerParts> = {}): Fleet {
  const clock = new SimClock();
  const changes: KvChange[] = [];
  const worker = new SimWorker({
    ...{ id: "w", clock, model, onChanges: (news) => changes.push(...news) },
    ...parts,
  });
  return { clock, worker, outcomes: [], changes };
}

function ask(fleet: Fleet, atMs: number, id: string, ids: Int32Array, outputTokens = 8): void {
  const { clock, worker, outcomes } = fleet;
  clock.at(atMs, () =>
    worker.submit(
      { id, promptTokenIds: ids, outputTokens },
      { end: (outcome) => outcomes.push(outcome) },
    ),
  );
}

function checkBooks({ worker, clock }: Fleet): void {
  expect(clock.pending).toBe(0);
  expect(worker.stats()).toMatchObject({ running: 0, waiting: 0, heldBlocks: 0 });
  worker.scheduler.audit();
  expect(worker.load()).toMatchObject({ blocksUsed: 0, uncachedTokens: 0 });
}

describe("one request", () => {
  test("[CL100] its first token takes the time of its prompt, the others that of decoding", () => {
    const fleet = start();
    ask(fleet, 100, "a", prompt(1, 1024), 11);
    fleet.clock.run();
    const [outcome] = fleet.outcomes;
    const { step } = model;
    const pairs = (1024 * 1025) / 2;
    const prefillMs = step.stepMs + 1024 * step.promptTokenMs + pairs * step.promptPairMs;
    expect(outcome?.firstTokenMs).toBeCloseTo(100 + prefillMs, 6);
    let decodeMs = 0;
    for (let token = 1; token <= 10; token++) {
      decodeMs += step.stepMs + step.decodingMs + (1024 + token) * step.contextTokenMs;
    }
    expect(outcome?.endMs).toBeCloseTo(100 + prefillMs + decodeMs, 6);
    expect(outcome).toMatchObject({ reason: "length", cachedTokens: 0, outputTokens: 11 });
    checkBooks(fleet);
  });

  test("a second one finds the first one's blocks", () => {
    const fleet = start();
    ask(fleet, 0, "a", prompt(1, 1024));
    ask(fleet, 1000, "b", prompt(1, 1024));
    fleet.clock.run();
    const [first, second] = fleet.outcomes;
    // The last token of a prompt is always computed.
    expect([first?.cachedTokens, second?.cachedTokens]).toEqual([0, 1023]);
    expect(Number(second?.firstTokenMs) - 1000).toBeLessThan(Number(first?.firstTokenMs) / 4);
  });
});

describe("changes of the cache", () => {
  test("[CL105] add up to the blocks that can be found: stored, each the child of the one before", () => {
    const fleet = start();
    ask(fleet, 0, "a", prompt(1, 64), 33);
    fleet.clock.run();
    const stored = fleet.changes.filter((change) => change.type === "stored");
    const tokens = stored.flatMap((change) => [...change.tokens]);
    expect(tokens.slice(0, 64)).toEqual([...prompt(1, 64)]);
    // 64 of the prompt and 32 of the answer, whose last token is not computed.
    expect(tokens).toHaveLength(96);
    expect(stored[0]).toMatchObject({ parent: null, level: 0 });
    let before: number[] = [];
    for (const { parent, names } of stored) {
      if (before.length > 0) expect([...(parent ?? [])]).toEqual(before);
      before = [...names.slice(-2)];
    }
  });

  test("blocks that a full pool evicts are removed, or move to host memory", () => {
    const types = (blocks: readonly [number, number, number]) => {
      const fleet = start({ blocks });
      for (let at = 0; at < 8; at++) ask(fleet, 1000 * at, `${at}`, prompt(at, 320));
      fleet.clock.run();
      checkBooks(fleet);
      return new Set(fleet.changes.map(({ type }) => type));
    };
    expect(types([64, 0, 0])).toEqual(new Set(["stored", "removed"]));
    expect(types([64, 400, 0])).toEqual(new Set(["stored", "moved"]));
  });
});

describe("levels", () => {
  const revisit = (blocks: readonly [number, number, number]) => {
    const fleet = start({ blocks });
    for (let at = 0; at < 8; at++) ask(fleet, 1000 * at, `${at}`, prompt(at, 640));
    ask(fleet, 60_000, "again", prompt(0, 640));
    fleet.clock.run();
    checkBooks(fleet);
    return fleet.outcomes.at(-1);
  };

  test("[CL100] what left the device comes back from host memory and from disk, the farther the later", () => {
    const none = revisit([64, 0, 0]);
    const host = revisit([64, 1000, 0]);
    const disk = revisit([64, 64, 4000]);
    const device = revisit([1000, 0, 0]);
    const cached = [none, host, disk, device].map((outcome) => outcome?.cachedTokens);
    // From disk come whole blocks.
    expect(cached).toEqual([0, 639, 624, 639]);
    const ms = [device, host, disk, none].map((one) => Number(one?.firstTokenMs) - 60_000);
    expect(ms.toSorted((a, b) => a - b).slice(0, 2)).toEqual(ms.slice(0, 2));
    expect(ms[2]).toBeGreaterThan(ms[1] ?? 0);
  });
});

describe("any load", () => {
  const crowd = (order = 1) => {
    const fleet = start({ blocks: [120, 40, 0], scheduler: { stepTokensMax: 512 } });
    for (let at = 0; at < 200; at++) {
      const place = order === 1 ? at : 199 - at;
      ask(fleet, (at % 40) * 3, `${place}`, prompt(place % 30, 200 + place), 20 + (place % 60));
    }
    return fleet;
  };

  test("[CL103] is the same again, to the last digit", () => {
    const [first, second] = [crowd(), crowd()];
    first.clock.run();
    second.clock.run();
    expect(second.outcomes).toEqual(first.outcomes);
    expect(second.changes).toEqual(first.changes);
  });

  test("[CL104] preempts, completes all, and leaves the books empty", () => {
    const fleet = crowd();
    fleet.clock.run();
    expect(fleet.outcomes).toHaveLength(200);
    expect(new Set(fleet.outcomes.map(({ reason }) => reason))).toEqual(new Set(["length"]));
    expect(fleet.worker.stats().preemptions).toBeGreaterThan(0);
    checkBooks(fleet);
  });

  test("[CL104] aborted requests end at once, and a stopped worker ends all of its own", () => {
    const fleet = crowd();
    fleet.clock.run(60);
    fleet.worker.abort("3");
    fleet.worker.abort("nobody");
    expect(fleet.outcomes.at(-1)).toMatchObject({ reason: "abort", request: { id: "3" } });
    fleet.clock.run(200);
    const ended = fleet.outcomes.length;
    fleet.worker.stop();
    expect(fleet.outcomes).toHaveLength(200);
    expect(fleet.outcomes.slice(ended).every(({ reason }) => reason === "error")).toBe(true);
    expect(() =>
      fleet.worker.submit(
        { id: "late", promptTokenIds: prompt(1, 8), outputTokens: 1 },
        { end: () => {} },
      ),
    ).toThrow(/has stopped/);
    fleet.clock.run();
    expect(fleet.worker.stats()).toMatchObject({ running: 0, waiting: 0, heldBlocks: 0 });
  });
});
