/** Drafts of sequences that a grammar constrains. */
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { BatchWriter, type GrammarMatcher, SamplingParams, SequenceSampling } from "#sampling";
import type { Sequence } from "#scheduler";
import { type DraftShape, type TokenTree, treeOf } from "#speculative";
import { GrammarDrafts } from "../../src/engine/loop/grammar-drafts.ts";
import type { SequenceDrafter } from "../../src/engine/loop/sequence-drafter.ts";
import { distinct, Harness } from "../scheduler/harness.ts";
import { pretendMatcher } from "../support/pretend-matcher.ts";
import { grammarEngine } from "./pretend-grammars.ts";

const vocabularySize = 100;
const end = 99;
const root = 7;

/** A grammar of even tokens that counts how far it is ahead. */
function evenGrammar(replaced: Partial<GrammarMatcher> = {}) {
  const depth = { now: 0 };
  const matcher = pretendMatcher({
    ends: (token) => token === end,
    accept: (token) => {
      if (token % 2 !== 0) return false;
      depth.now++;
      return true;
    },
    rollback: (count) => {
      depth.now -= count;
    },
    ...replaced,
  });
  return { matcher, depth };
}

/** A drafter that always drafts the same tree, and notes what it is told. */
class OneTree implements SequenceDrafter {
  readonly kind = "one";
  readonly whole = null;
  readonly likelyTokens = 0;
  readonly matched = 0;
  readonly active = false;
  readonly #tree: TokenTree | null;
  readonly told: unknown[] = [];
  asked = 0;

  constructor(tree: TokenTree | null) {
    this.#tree = tree;
  }

  begin(): DraftShape | null {
    return null;
  }

  next(): TokenTree | null {
    this.asked++;
    return this.#tree;
  }

  allow(): void {}

  proposed(nodes: number): void {
    this.told.push(["proposed", nodes]);
  }

  follow(): null {
    return null;
  }

  verified(drafted: number, accepted: number): void {
    this.told.push(["verified", drafted, accepted]);
  }
}

/** What becomes of a tree of these branches. */
async function draftOf(branches: number[][], matcher: GrammarMatcher) {
  const params = SamplingParams.parse({ structuredOutput: { regex: "x" } });
  const options = { params, seed: 1, promptTokens: [1], vocabularySize, endTokenIds: [end] };
  const sampling = new SequenceSampling({ ...options, matcher });
  await sampling.prepare();
  const inner = new OneTree(branches.length === 0 ? null : treeOf(root, branches, 64));
  const drafts = new GrammarDrafts(inner, 8);
  const sequence: Sequence = new Harness().add([...distinct(1, 3), root]);
  const open = { rests: false, adaptive: false, triesNetwork: false, expected: () => 1 };
  const next = (foresees = true) => drafts.next(sequence, null, { sampling, foresees, ...open });
  return { draft: next(), drafts, inner, sampling, next };
}

describe("[SP24] a draft", () => {
  test("is cut where the grammar refuses a token, and its other branches stay", async () => {
    const { matcher, depth } = evenGrammar();
    const found = await draftOf([[2, 4, 5, 6], [2, 8, 10], [3, 2], [12]], matcher);
    expect(found.draft).toEqual(treeOf(root, [[2, 4], [2, 8, 10], [12]], 64));
    expect(found.drafts.likelyTokens).toBe(2);
    expect(found.drafts.kind).toBe("one");
    expect(depth.now).toBe(0);
  });

  test("has no end token: nothing follows it", async () => {
    const { draft } = await draftOf([[2, end, 4]], evenGrammar({ accept: () => true }).matcher);
    expect(draft).toEqual(treeOf(root, [[2]], 64));
  });

  test("is none where nothing is allowed", async () => {
    const { draft, drafts } = await draftOf([[3, 2], [5]], evenGrammar().matcher);
    expect(draft).toBeNull();
    expect(drafts.likelyTokens).toBe(0);
  });

  test("is none where the grammar is not quick", async () => {
    const { draft } = await draftOf([[2, 4]], evenGrammar({ quick: false }).matcher);
    expect(draft).toBeNull();
  });

  test("is none where the grammar fails, and the sequence is where it was", async () => {
    const { matcher, depth } = evenGrammar();
    const accept = (token: number) => {
      if (token === 6) throw new Error("memory access out of bounds");
      return matcher.accept(token);
    };
    const { draft, sampling } = await draftOf([[2, 4, 6]], { ...matcher, accept });
    expect(draft).toBeNull();
    expect(depth.now).toBe(0);
    sampling.accept(2);
    await sampling.prepare();
    expect(depth.now).toBe(1);
  });
});

describe("[SP25] what the grammar forces", () => {
  const forced = (...tokens: number[]) => ({
    forced: (most: number) => Int32Array.from(tokens.slice(0, most)),
  });

  test("is drafted where the drafter has less, and its drafter is not told of it", async () => {
    const { matcher } = evenGrammar(forced(4, 6, 8));
    const { draft, drafts, inner } = await draftOf(
      [
        [2, 4],
        [4, 6],
      ],
      matcher,
    );
    expect(draft).toEqual(treeOf(root, [[4, 6, 8]], 64));
    expect([drafts.kind, drafts.likelyTokens]).toEqual(["forced", 3]);
    drafts.proposed(3);
    expect(drafts.active).toBe(true);
    drafts.verified(3, 3);
    expect(inner.told).toEqual([["proposed", 0]]);
  });

  test("is not drafted where the drafter's continuation is as long", async () => {
    const { matcher } = evenGrammar(forced(4, 6));
    const { draft, drafts, inner } = await draftOf([[4, 8]], matcher);
    expect(draft).toEqual(treeOf(root, [[4, 8]], 64));
    drafts.proposed(2);
    drafts.verified(2, 1);
    expect(inner.told).toEqual([
      ["proposed", 2],
      ["verified", 2, 1],
    ]);
  });

  test("is asked for less often while none of it is verified", async () => {
    let asked = 0;
    const { matcher } = evenGrammar({
      forced: () => {
        asked++;
        return Int32Array.of(4);
      },
    });
    const { drafts, next } = await draftOf([], matcher);
    for (let step = 1; step < 32; step++) next();
    expect(asked).toBe(32);
    for (let step = 32; step < 96; step++) next();
    expect(asked).toBe(32 + 8);
    // The last one is to be verified.
    expect(drafts.kind).toBe("forced");
    drafts.proposed(1);
    for (let step = 0; step < 32; step++) next();
    expect(asked).toBe(32 + 8 + 32);
  });

  test("needs no draft, and is at most as long as wanted", async () => {
    const { draft } = await draftOf(
      [],
      evenGrammar(forced(...distinct(0, 30).map((n) => 2 * (n % 40)))).matcher,
    );
    expect(draft?.tokens.length).toBe(9);
  });
});

describe("[SP24] a step", () => {
  const structuredOutput = { regex: "a+" };
  const draftShape = { kind: "lookup", length: 31, width: 1 } as const;
  const repeated = Array.from({ length: 4 }, () => [10, 11, 12, 13, 14, 15]).flat();

  test("makes at most 128 masks behind drafts, of all sequences together", async () => {
    let ahead = 0;
    const fillAhead = (row: Uint32Array) => {
      ahead++;
      row.fill(0xffffffff);
    };
    // As many tokens are forced of each sequence as are asked for.
    const scripted = grammarEngine(
      { fillAhead, forced: (most) => Int32Array.from({ length: most }, () => 3) },
      { blocks: 400 },
    );
    for (let request = 0; request < 8; request++) {
      scripted.add(repeated, { structuredOutput, maxTokens: 60 }, { draftShape });
    }
    await turn();
    let most = 0;
    for (;;) {
      const before = ahead;
      if ((await scripted.engine.step()) === null) break;
      most = Math.max(most, ahead - before);
    }
    expect(most).toBe(128);
    expect(scripted.engine.stats().heldBlocks).toBe(0);
  });

  test("waits for no mask behind a draft where a grammar became slow", async () => {
    let masks = 0;
    const { matcher } = evenGrammar({
      fillAhead: (row) => {
        masks++;
        row.fill(0xffffffff);
      },
    });
    Object.defineProperty(matcher, "quick", { get: () => masks < 2 });
    const { sampling } = await draftOf([], matcher);
    const writer = new BatchWriter({ rowsMax: 8, vocabularySize });
    const paths = [undefined, [2], [2, 4], [2, 4, 6], [2, 4, 6, 8]];
    const rows = paths.map((path, position) => ({
      ...{ sampling, position },
      ...(path !== undefined && { drafted: Int32Array.from(path) }),
    }));
    const failures = await writer.prepare(rows);
    for (const { masks: written } of writer.edits(rows, failures)) {
      expect([...(written?.rows ?? [])]).toEqual([1, 1, 1, 0, 0]);
    }
    expect(masks).toBe(2);
    // The walk over the draft ends before these.
    expect([...failures.keys()]).toEqual([3, 4]);
  });
});

test("[SP28] nothing is asked of a grammar while its drafts do not pay", async () => {
  const { matcher } = evenGrammar();
  const { draft, drafts, inner, next } = await draftOf([[4, 6]], matcher);
  expect(draft?.tokens).toEqual(Int32Array.of(root, 4, 6));
  expect(next(false)).toBeNull();
  expect([drafts.whole, drafts.begin(), drafts.active]).toEqual([null, null, false]);
  expect(inner.asked).toBe(1);
  expect(next(true)).toEqual(draft);
});
