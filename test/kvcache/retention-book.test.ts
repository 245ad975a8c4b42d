import { describe, expect, test } from "vitest";
import { seedFrom, uniformAt } from "#base";
import { type LevelBlockId, levelBlockId, PriorityEviction, RetentionBook } from "#kvcache";

const [A, B, C] = [levelBlockId(0), levelBlockId(1), levelBlockId(2)];
const FOR_EVER = { priority: null, durationMs: null };

/** A level of cached blocks, all worth 35, with a clock that the test turns. */
class Level {
  readonly order: PriorityEviction;
  readonly book: RetentionBook;

  constructor(blocks: number) {
    this.order = new PriorityEviction(blocks, () => false);
    this.book = new RetentionBook(blocks);
    for (let block = 0; block < blocks; block++) this.release(levelBlockId(block), 0);
  }

  claim(block: LevelBlockId, priority: number | null, durationMs: number | null = null): void {
    this.order.remove(block);
    this.book.retained(block);
    this.book.claim(block, { priority, durationMs });
    this.order.prioritise(block, this.book.priorityOf(block));
  }

  release(block: LevelBlockId, nowMs: number): void {
    this.order.add(block);
    this.book.released(block, nowMs);
  }

  refresh(nowMs: number): LevelBlockId[] {
    const expired: LevelBlockId[] = [];
    this.book.expire(nowMs, (block) => {
      this.order.prioritise(block, this.book.priorityOf(block));
      expired.push(block);
    });
    return expired;
  }
}

describe("with an order of eviction", () => {
  test("T 6: what is claimed at 5 goes next, and is worth too little to be kept elsewhere", () => {
    const level = new Level(8);
    expect(level.book.priorityOf(A)).toBe(35);
    level.claim(C, 5);
    level.release(C, 0);
    expect(level.order.victim()).toBe(C);
    expect(level.book.priorityOf(C)).toBe(5);
  });

  test("T 7: of 80 and 5, the 5 goes first, before all that are worth 35", () => {
    const level = new Level(8);
    level.claim(A, 80);
    level.claim(C, 5);
    level.release(A, 0);
    level.release(C, 0);
    expect(level.order.victim()).toBe(C);
    level.order.remove(C);
    expect(level.order.victim()).toBe(B);
  });

  test("T 8: a priority lasts as long as was said, from the release on", () => {
    const level = new Level(8);
    level.claim(A, 80, 1);
    expect(level.refresh(9)).toEqual([]);
    level.release(A, 10);
    expect(level.refresh(10)).toEqual([]);
    expect(level.book.priorityOf(A)).toBe(80);
    expect(level.refresh(12)).toEqual([A]);
    expect(level.book.priorityOf(A)).toBe(35);
  });

  test("T 9: what expired is worth less than what did not, until that expires, too", () => {
    const level = new Level(8);
    for (let block = 2; block < 8; block++) level.claim(levelBlockId(block), null);
    level.claim(A, 80, 3);
    level.claim(B, 50, 8);
    level.release(A, 5);
    level.release(B, 5);
    level.refresh(5);
    expect(level.order.victim()).toBe(B);
    level.refresh(9);
    expect(level.order.victim()).toBe(A);
    level.refresh(13);
    expect(level.order.victim()).toBe(A);
    expect(level.book.priorityOf(B)).toBe(35);
  });

  test("a block that was worth less than 35 is worth more once its time is up", () => {
    const level = new Level(3);
    level.claim(A, 5, 10);
    level.release(A, 0);
    expect(level.order.victim()).toBe(A);
    level.refresh(10);
    expect(level.order.victim()).toBe(B);
  });
});

describe("claims", () => {
  test("the latest priority counts, downwards too, and none leaves the one before", () => {
    const book = new RetentionBook(3);
    expect(book.claim(A, { priority: 50, durationMs: null })).toEqual({
      newValue: 50,
      oldValue: 35,
    });
    expect(book.claim(A, { priority: 50, durationMs: 7 })).toBeNull();
    expect(book.claim(A, FOR_EVER)).toBeNull();
    expect(book.claim(A, { priority: 10, durationMs: null })).toEqual({
      newValue: 10,
      oldValue: 50,
    });
    expect(book.priorityOf(A)).toBe(10);
  });

  test("a duration is replaced by every claim, by none too", () => {
    const book = new RetentionBook(3);
    book.claim(A, { priority: 80, durationMs: 5 });
    expect(book.durationOf(A)).toBe(5);
    book.claim(A, { priority: null, durationMs: 9 });
    expect(book.durationOf(A)).toBe(9);
    book.claim(A, FOR_EVER);
    expect(book.durationOf(A)).toBeNull();
    book.released(A, 0);
    expect(book.runningCount).toBe(0);
  });

  test("holding a block stops its time, and letting go starts it from the beginning", () => {
    const book = new RetentionBook(3);
    book.claim(A, { priority: 80, durationMs: 10 });
    book.released(A, 0);
    book.retained(A);
    expect(book.runningCount).toBe(0);
    book.released(A, 8);
    expect(expired(book, 17)).toEqual([]);
    expect(expired(book, 18)).toEqual([[A, 80]]);
  });

  test("no time runs for what is worth 35 anyway", () => {
    const book = new RetentionBook(3);
    book.claim(A, { priority: 35, durationMs: 10 });
    book.released(A, 0);
    expect(book.runningCount).toBe(0);
  });

  test("what expired keeps its duration for a holder that only retains it", () => {
    const book = new RetentionBook(3);
    book.claim(A, { priority: 80, durationMs: 10 });
    book.released(A, 0);
    expect(expired(book, 10)).toEqual([[A, 80]]);
    book.retained(A);
    expect(book.durationOf(A)).toBe(10);
    book.released(A, 20);
    expect(book.runningCount).toBe(0);
  });

  test("contents that move keep their priority and the rest of their time", () => {
    const [device, host] = [new RetentionBook(3), new RetentionBook(3)];
    device.claim(A, { priority: 80, durationMs: 10 });
    device.released(A, 0);
    host.claim(C, { priority: 5, durationMs: 1 });
    host.inherit(C, device.leaseOf(A));
    device.reset(A);
    expect(host.leaseOf(C)).toEqual({ priority: 80, durationMs: 10, deadlineMs: 10 });
    // Who let go of it meanwhile does not begin its time anew.
    host.released(C, 4);
    expect(expired(host, 9)).toEqual([]);
    expect(expired(host, 10)).toEqual([[C, 80]]);
    expect([device.priorityOf(A), device.durationOf(A), device.runningCount]).toEqual([
      35,
      null,
      0,
    ]);
  });

  test("nothing is left of what was said once all blocks are handed out anew", () => {
    const book = new RetentionBook(3);
    book.claim(A, { priority: 80, durationMs: 10 });
    book.claim(B, { priority: 90, durationMs: null });
    book.released(A, 0);
    book.clear();
    expect(expired(book, 99)).toEqual([]);
    expect([A, B].map((block) => book.priorityOf(block))).toEqual([35, 35]);
    expect(book.durationOf(A)).toBeNull();
  });

  test("of a copy of what is held no time runs, and what has no end is not given one", () => {
    const [device, host] = [new RetentionBook(3), new RetentionBook(3)];
    device.claim(A, { priority: 80, durationMs: 10 });
    host.inherit(B, device.leaseOf(A));
    host.inherit(C, device.leaseOf(B));
    expect(host.runningCount).toBe(0);
    host.released(B, 7);
    expect(host.leaseOf(B).deadlineMs).toBe(17);
    expect(host.leaseOf(C)).toEqual({ priority: 35, durationMs: null, deadlineMs: null });
  });

  test("impossible priorities, durations and blocks are bugs", () => {
    const book = new RetentionBook(3);
    expect(() => book.setPriority(A, 101)).toThrow("priority 101");
    expect(() => book.claim(A, { priority: 1.5, durationMs: null })).toThrow("priority 1.5");
    expect(() => book.claim(A, { priority: 1, durationMs: -1 })).toThrow(
      "duration must be more than 0",
    );
    expect(() => book.priorityOf(levelBlockId(3))).toThrow("another level");
  });
});

test.for([1, 2, 3])("T 1.4: blocks expire when a plain model says so (seed %i)", (seed) => {
  const blocks = 12;
  const book = new RetentionBook(blocks);
  const plain = Array.from({ length: blocks }, () => ({
    priority: 35,
    durationMs: 0,
    deadline: Number.POSITIVE_INFINITY,
  }));
  let draws = 0;
  const below = (limit: number) => Math.floor(uniformAt(seedFrom(seed), draws++) * limit);
  for (let nowMs = 0; nowMs < 4000; nowMs++) {
    const block = levelBlockId(below(blocks));
    const own = plain[block];
    if (own === undefined) throw new Error("no such block");
    if (own.deadline === Number.POSITIVE_INFINITY && below(2) === 0) {
      book.released(block, nowMs);
      const runs = own.priority !== 35 && own.durationMs > 0;
      if (runs) own.deadline = nowMs + own.durationMs;
    } else {
      book.retained(block);
      own.deadline = Number.POSITIVE_INFINITY;
      const durationMs = below(3) * 10;
      own.priority = 30 + below(10);
      own.durationMs = durationMs;
      book.claim(block, { priority: own.priority, durationMs: durationMs || null });
    }
    const due = new Set<number>();
    plain.forEach((each, index) => {
      if (each.deadline > nowMs) return;
      each.deadline = Number.POSITIVE_INFINITY;
      each.priority = 35;
      due.add(index);
    });
    expect(new Set(expired(book, nowMs).map(([each]) => each))).toEqual(due);
    expect(book.priorityOf(block)).toBe(own.priority);
  }
});

function expired(book: RetentionBook, nowMs: number): [block: LevelBlockId, priority: number][] {
  const found: [block: LevelBlockId, priority: number][] = [];
  book.expire(nowMs, (block, priority) => found.push([block, priority]));
  return found;
}
