import { describe, expect, test } from "vitest";
import { type BlockId, blockId, type NodeId } from "#kvcache";
import { ContentIndex } from "../../src/kvcache/contents/content-index.ts";

/** Ten blocks per level, of two tokens each, and what the index told. */
class Levels {
  readonly told: string[] = [];
  readonly index: ContentIndex = new ContentIndex(
    { blocks: 30, blockTokens: 2 },
    (block) => (block < 10 ? 0 : block < 20 ? 1 : 2),
    {
      stored: (node) => this.told.push(`stored ${this.name(node)}`),
      removed: (node) => this.told.push(`removed ${this.name(node)}`),
      bestChanged: (node, from, to) => this.told.push(`${this.name(node)}: ${from} to ${to}`),
      uncovered: (block) => this.uncovered.add(block),
    },
  );
  readonly uncovered = new Set<BlockId>();

  name(node: NodeId): string {
    return this.index.tree.tokensOf(node).join(" ");
  }

  store(block: number, token: number, parent: NodeId | null = null): NodeId {
    const tokens = Int32Array.of(token, token);
    return this.index.insert({ scope: "", parent, tokens, start: 0, count: 2 }, blockId(block));
  }

  covered(...blocks: number[]): boolean[] {
    return blocks.map((block) => this.index.isCovered(blockId(block)));
  }
}

describe("covered blocks", () => {
  test("[KV31] what is as near, or nearer, covers", () => {
    const levels = new Levels();
    const head = levels.store(0, 1);
    expect(levels.covered(0)).toEqual([false]);
    const middle = levels.store(1, 2, head);
    levels.store(12, 3, middle);
    // The tail is in host memory: it does not keep what it continues on the device.
    expect(levels.covered(0, 1, 12)).toEqual([true, false, false]);
    levels.index.audit();
  });

  test("[KV31] a head in host memory is covered by tails there and on the device", () => {
    for (const tail of [1, 12]) {
      const levels = new Levels();
      levels.store(tail, 2, levels.store(11, 1));
      expect(levels.covered(11)).toEqual([true]);
    }
  });

  test("[KV31] of several copies only the best can be covered, and only if it is alone there", () => {
    const levels = new Levels();
    const head = levels.store(0, 1);
    levels.store(1, 2, head);
    levels.index.attach(head, blockId(12));
    expect(levels.covered(0, 12)).toEqual([true, false]);
    levels.index.attach(head, blockId(2));
    expect(levels.covered(0, 2)).toEqual([false, false]);
    expect(levels.uncovered).toContain(0);
  });

  test("[KV31] a copy that is not the best any more is told", () => {
    const levels = new Levels();
    const head = levels.store(11, 1);
    levels.store(12, 2, head);
    expect(levels.covered(11)).toEqual([true]);
    levels.index.attach(head, blockId(0));
    expect(levels.told.at(-1)).toBe("1 1: 11 to 0");
    expect(levels.uncovered).toContain(11);
    expect(levels.covered(0, 11)).toEqual([false, false]);
  });

  test("[KV18] a head is told when its last near tail goes, or goes farther away", () => {
    const levels = new Levels();
    const head = levels.store(0, 1);
    const tail = levels.store(1, 2, head);
    levels.index.attach(tail, blockId(11));
    expect(levels.uncovered).not.toContain(0);
    levels.index.remove(blockId(1));
    expect(levels.uncovered).toContain(0);
    levels.uncovered.clear();
    levels.index.attach(tail, blockId(1));
    levels.index.remove(blockId(11));
    expect(levels.uncovered).not.toContain(0);
    levels.index.remove(blockId(1));
    expect(levels.uncovered).toContain(0);
    expect(levels.told.at(-1)).toBe("removed 2 2");
    levels.index.audit();
  });
});

describe("places", () => {
  test("[KV12] a place that is used again has another serial", () => {
    const levels = new Levels();
    const first = levels.store(0, 1);
    const serial = levels.index.serialOf(first);
    levels.index.remove(blockId(0));
    expect(levels.index.serialOf(first)).not.toBe(serial);
    const second = levels.store(0, 2);
    expect(second).toBe(first);
    const now = levels.index.serialOf(second);
    levels.index.clear();
    expect(levels.index.serialOf(second)).not.toBe(now);
  });

  test("[KV26] full blocks can be continued, by at most a block", () => {
    const levels = new Levels();
    const head = levels.store(0, 1);
    const tokens = Int32Array.of(7);
    const place = { scope: "", parent: head, tokens, start: 0, count: 1 };
    const partial = levels.index.insert(place, blockId(1));
    expect(levels.index.fits(head, 2)).toBe(true);
    expect(levels.index.fits(null, 1)).toBe(true);
    expect(levels.index.fits(head, 0)).toBe(false);
    expect(levels.index.fits(head, 3)).toBe(false);
    expect(levels.index.fits(partial, 1)).toBe(false);
  });

  test("[KV30] what is below a place goes deepest first, and is told", () => {
    const levels = new Levels();
    const head = levels.store(0, 1);
    levels.store(11, 3, levels.store(1, 2, head));
    const gone: number[] = [];
    levels.index.removeBelow(head, (block) => gone.push(block));
    expect(gone).toEqual([11, 1]);
    expect(levels.told.slice(-2)).toEqual(["removed 3 3", "removed 2 2"]);
    expect(levels.covered(0)).toEqual([false]);
    levels.index.audit();
  });

  test("[KV11] equal contents are one place; another copy makes no event", () => {
    const levels = new Levels();
    expect(levels.store(1, 1)).toBe(levels.store(0, 1));
    expect(levels.told).toEqual(["stored 1 1"]);
    levels.index.remove(blockId(1));
    expect(levels.told.at(-1)).toBe("1 1: 1 to 0");
  });
});
