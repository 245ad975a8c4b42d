/** The tokens are the same, wherever the cache keeps blocks and whichever sequences share them. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type CacheReport, isLost, KvMirror, type LLM } from "#engine";
import { eachNth } from "../../support/full.ts";
import {
  type Answer,
  answersTo,
  answerTo,
  BLOCK_TOKENS,
  cachedTokensOf,
  expectAtRest,
  PARTED_AT,
  type PlainRun,
  plainRun,
  type RunOptions,
  type Subject,
  withEngine,
} from "./asks.ts";

/** Which fixtures run what: all of it takes seconds each on the reference device. */
export interface CacheModes {
  readonly device: Subject["device"];
  /** Where the cuda device finds its libraries. */
  readonly cuda?: NonNullable<Subject["cuda"]>;
  /** Whether steps start before the ones before them end. Default: where the device can. */
  readonly overlapSteps?: boolean;
  /** Everything at once, in both kinds of preemption. */
  readonly together: readonly string[];
  /** One way of reuse at a time, with what it must count. */
  readonly apart: readonly string[];
  /** Everything at once, with keys and values in fewer bits, or with a window and sinks. */
  readonly varied: readonly string[];
}

const STREAMING = [
  { attentionWindow: 32, attentionSinks: 0 },
  { attentionWindow: 30, attentionSinks: 5 },
];
const KEYS_8_BIT = ["int8", "fp8"] as const;
const HOST_BLOCKS = 64;
const TINY_HOST_BLOCKS = 12;
const DISK_BLOCKS = 400;

/** What every device owes, run through `LLM`. */
export function cacheModesContract(modes: CacheModes): void {
  const { together, apart, varied } = modes;
  const { device, cuda = {}, overlapSteps } = modes;
  const common = { device, cuda, ...(overlapSteps !== undefined && { overlapSteps }) };
  const name = overlapSteps === true ? `${device}, steps ahead,` : device;
  test.for(together)(`${name} and %s, everything at once`, (fixture) =>
    expectSame({ ...common, fixture }, "swap"),
  );
  describe.each(apart)(`${name} and %s`, (fixture) => {
    reuseTests({ ...common, fixture });
    levelTests({ ...common, fixture });
    preemptionTests({ ...common, fixture });
    test.for(eachNth(2, ["recompute", "auto"] as const))(
      "everything at once, by %s",
      (preemption) => expectSame({ ...common, fixture }, preemption),
    );
  });
  describe.each(varied)(`${name} and %s`, (fixture) => {
    test.for(eachNth(2, KEYS_8_BIT))(
      "keys and values in %s: other tokens, the same in all modes",
      (dtype) => expectSame({ ...common, fixture, dtype }, "swap"),
    );
    test.for(STREAMING)("with %o: other tokens, the same in all modes", (streaming) =>
      expectSame({ ...common, fixture, streaming }, "swap"),
    );
  });
}

/** Small pools, all levels, forks, beams, priorities and retention; then again after a restart. */
async function expectSame(
  subject: Subject,
  preemption: "swap" | "recompute" | "auto",
): Promise<void> {
  const plain = await plainRun(subject);
  const options: RunOptions = {
    kvCache: { ...tiersOf(plain, HOST_BLOCKS), ...diskOf(plain, scratchFolder()) },
    scheduler: { preemption, policy: "priority", longPrefillTokensMax: 30 },
  };
  await withEngine(subject, options, async (llm) => {
    await expectAnswers(llm, plain);
    await expectAnswers(llm, plain);
    expect(llm.stats().preemptions).toBeGreaterThan(0);
    expect(llm.stats().forks).toBeGreaterThan(0);
    const { copy, offload, diskWrite } = reportOf(llm).moves;
    for (const { blocks } of [copy, offload, diskWrite]) expect(blocks).toBeGreaterThan(0);
    await expectMirrored(llm);
  });
  await withEngine(subject, options, async (llm) => {
    await expectAnswers(llm, plain);
    expect(reportOf(llm).moves.diskRead.blocks).toBeGreaterThan(0);
  });
}

function reuseTests(subject: Subject): void {
  test("without a prefix cache", async () => {
    const plain = await plainRun(subject);
    await withEngine(subject, { kvCache: { prefixCaching: false } }, async (llm) => {
      await expectAnswers(llm, plain);
      await expectAnswers(llm, plain);
      expect(llm.stats().prefixHitTokens).toBe(0);
    });
  });

  test("with full blocks reused, and no part of one", async () => {
    const plain = await plainRun(subject);
    await withEngine(subject, { kvCache: { partialReuse: false } }, async (llm) => {
      await expectAnswers(llm, plain);
      await expectAnswers(llm, plain);
      for (const ask of plain.secondTurns) {
        const full = Math.floor((ask.promptTokenIds.length - 1) / BLOCK_TOKENS) * BLOCK_TOKENS;
        expect(await cachedTokensOf(llm, ask)).toBe(full);
      }
    });
  });

  test("with parts of blocks reused: prompts that part inside one, and second turns", async () => {
    const plain = await plainRun(subject);
    await withEngine(subject, {}, async (llm) => {
      const [, short, , long] = plain.first;
      const [shortAnswer] = plain.answers[1] ?? [];
      const [turn] = plain.secondTurns;
      const [, , , , , , parted] = plain.first;
      if (!short || !long || !shortAnswer || !turn || !parted) throw new Error("Asks are missing");
      await answerTo(llm, short);
      // All of the conversation but its last token, which was drawn and never computed.
      const known = short.promptTokenIds.length + shortAnswer.length - 1;
      expect(known % BLOCK_TOKENS).not.toBe(0);
      expect(await cachedTokensOf(llm, turn)).toBe(known);
      await answerTo(llm, long);
      expect(await cachedTokensOf(llm, parted)).toBe(PARTED_AT);
      expect(await cachedTokensOf(llm, long)).toBe(long.promptTokenIds.length - 1);
      await expectAnswers(llm, plain);
    });
  });

  test("with samples that share all blocks of their prompt, and copy the last one", async () => {
    const plain = await plainRun(subject);
    await withEngine(subject, {}, async (llm) => {
      const place = plain.first.findIndex(({ options }) => options.n === 3);
      expect(await answersTo(llm, plain.first.slice(place, place + 1))).toEqual(
        plain.answers.slice(place, place + 1),
      );
      expect(llm.stats().forks).toBe(2);
      expect(reportOf(llm).copiedBlocks).toBe(2 * plain.groups);
    });
  });
}

function levelTests(subject: Subject): void {
  test("with a host level behind a small pool, one prompt after the other", async () => {
    const plain = await plainRun(subject);
    await withEngine(subject, { kvCache: tiersOf(plain, 400) }, async (llm) => {
      await expectInOrder(llm, plain);
      await expectInOrder(llm, plain);
      const { levels } = reportOf(llm);
      expect(levels[0]?.offloaded).toBeGreaterThan(0);
      expect(levels[1]?.onboarded).toBeGreaterThan(0);
      expect(levels[1]?.hitTokens).toBeGreaterThan(0);
    });
  });

  test("with a disk level behind hardly any host memory, and after a restart", async () => {
    const plain = await plainRun(subject);
    const kvCache = {
      ...tiersOf(plain, TINY_HOST_BLOCKS),
      ...diskOf(plain, scratchFolder()),
    };
    await withEngine(subject, { kvCache }, async (llm) => {
      await expectInOrder(llm, plain);
      await expectInOrder(llm, plain);
      expect(llm.stats().loads).toBeGreaterThan(0);
      expect(reportOf(llm).moves.diskRead.blocks).toBeGreaterThan(0);
    });
    await withEngine(subject, { kvCache }, async (llm) => {
      await expectInOrder(llm, plain);
      expect(reportOf(llm).levels[2]?.hitTokens).toBeGreaterThan(0);
      expect(reportOf(llm).diskFailures).toBe(0);
    });
  });
}

function preemptionTests(subject: Subject): void {
  test.for(["swap", "recompute", "auto"] as const)(
    "with the smallest pool that can run, by %s",
    async (preemption) => {
      const plain = await plainRun(subject);
      const options = { kvCache: tiersOf(plain, HOST_BLOCKS), scheduler: { preemption } };
      await withEngine(subject, options, async (llm) => {
        expect(llm.info.blocks).toBe(plain.poolBlocks);
        await expectAnswers(llm, plain);
        const { preemptions, swapPreemptions } = llm.stats();
        expect(preemptions).toBeGreaterThan(0);
        if (preemption === "swap") expect(swapPreemptions).toBeGreaterThan(0);
        if (preemption === "recompute") expect(swapPreemptions).toBe(0);
      });
    },
  );
}

/** A mirror that follows the cache's events from the start knows its contents. */
async function expectMirrored(llm: LLM): Promise<void> {
  const mirror = new KvMirror();
  const snapshot = await llm.kvEvents.snapshot();
  for await (const item of llm.kvEvents) {
    expect(isLost(item) || mirror.apply(item)).toBe(true);
    if (mirror.nextId === snapshot.nextId) break;
  }
  expect(mirror.equals(snapshot)).toBe(true);
}

async function expectAnswers(llm: LLM, plain: PlainRun): Promise<void> {
  expect(await answersTo(llm, plain.first)).toEqual(plain.answers);
  expect(await answersTo(llm, plain.secondTurns)).toEqual(plain.secondAnswers);
}

/** One at a time, so that each finds all levels as the others left them, however slow the disk. */
async function expectInOrder(llm: LLM, plain: PlainRun): Promise<void> {
  const answers: Answer[] = [];
  for (const ask of [...plain.first, ...plain.secondTurns]) {
    answers.push(await answerTo(llm, ask));
    await expectAtRest(llm);
  }
  expect(answers).toEqual([...plain.answers, ...plain.secondAnswers]);
}

/** The smallest pool, and a host level that is used whatever the clock says. */
function tiersOf(
  { bytesPerBlock, poolBlocks, groups }: PlainRun,
  hostBlocks: number,
): NonNullable<RunOptions["kvCache"]> {
  return {
    poolBytes: bytesPerBlock * poolBlocks,
    hostCacheBytes: bytesPerBlock * groups * hostBlocks,
    onboard: "always",
  };
}

function diskOf(
  { bytesPerBlock, groups }: PlainRun,
  diskCacheDir: string,
): NonNullable<RunOptions["kvCache"]> {
  return { diskCacheBytes: bytesPerBlock * groups * DISK_BLOCKS, diskCacheDir };
}

function reportOf(llm: LLM): CacheReport {
  const { cache } = llm.stats();
  if (cache === null) throw new Error("A decoder has a cache");
  return cache;
}

/** An empty directory that goes away with the test. */
function scratchFolder(): string {
  const directory = mkdtempSync(join(tmpdir(), "perigee-parity-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
