import { describe, expect, test } from "vitest";
import { CacheManager, range, worth } from "../support/cache-manager.ts";

const zeros = (count: number) => Array.from({ length: count }, () => 0);

/** Scenarios 11 to 13 are one story. */
function manager11() {
  const manager = new CacheManager({ blocks: 8, blockTokens: 4 });
  const first = manager.add(range(0, 8));
  manager.push(first, 9, 10);
  return { manager, first };
}

function after11() {
  const { manager, first } = manager11();
  manager.remove(first);
  manager.pass(range(0, 8));
  const third = manager.add(range(0, 9));
  const fourth = manager.add(range(0, 10));
  return { manager, third, fourth };
}

function after12() {
  const { manager, third, fourth } = after11();
  manager.remove(third);
  manager.remove(fourth);
  const fifth = manager.add(range(0, 4));
  const sixth = manager.add([...range(0, 9), 11]);
  manager.remove(fifth);
  manager.remove(sixth);
  return { manager, fifth, sixth };
}

describe("TensorRT-LLM's scenarios of reuse", () => {
  test("[KV23] T 11: full blocks are used again, and the start of a partial one", () => {
    const { manager, first } = manager11();
    expect(first.cached).toBe(0);
    manager.remove(first);
    const second = manager.add(range(0, 8));
    expect(second.cached).toBe(8);
    manager.remove(second);
    expect(manager.add(range(0, 9)).cached).toBe(9);
    // The start of it was taken over, so it is not there any more.
    expect(manager.add(range(0, 10)).cached).toBe(8);
    expect(manager.free).toBe(4);
  });

  test("[KV26] T 12: of several partial blocks the one that ends with the prompt is used", () => {
    const { manager, fifth, sixth } = after12();
    expect(fifth.cached).toBe(4);
    expect(sixth.cached).toBe(10);
    const seventh = manager.add([...range(0, 9), 12]);
    expect(seventh.cached).toBe(10);
    manager.remove(seventh, 9);
    expect(manager.add([...range(0, 9), 12]).cached).toBe(9);
  });

  test("[KV8] T 13: a prompt of other tokens shares one, and one of one token none", () => {
    const { manager } = after12();
    const other = manager.add(zeros(31));
    expect(other.cached).toBe(1);
    expect(manager.free).toBe(0);
    manager.remove(other);
    const single = manager.add([0]);
    expect(single.cached).toBe(0);
    expect(manager.free).toBe(7);
  });

  test("[KV21] T 14: what is worth less goes first", () => {
    const manager = new CacheManager({ blocks: 4, blockTokens: 4 });
    const ranges = [
      { start: 0, end: 4, priority: 90, durationMs: null },
      { start: 4, end: 8, priority: 10, durationMs: null },
    ];
    const retention = { ranges, decodePriority: 35, decodeDurationMs: null };
    const a = manager.add(range(0, 7), { retention });
    const b = manager.add(range(8, 15));
    manager.remove(a);
    manager.remove(b);
    expect(manager.pass(range(16, 23), { retention: worth(20) })).toBe(0);
    expect(manager.pass(range(8, 15))).toBe(4);
    expect(manager.pass(range(0, 7))).toBe(4);
    expect(manager.pass(range(16, 23))).toBe(0);
  });

  test("[KV21] T 15: blocks of generated tokens have a priority of their own", () => {
    const manager = new CacheManager({ blocks: 8, blockTokens: 4 });
    const steps: number[] = [manager.free];
    const sequences = [90, 5].map((priority, at) => {
      const prompt = range(12 * at, 12 * at + 11);
      const one = manager.add(prompt, { retention: worth(priority, { decode: { priority } }) });
      steps.push(manager.free);
      return one;
    });
    for (const one of sequences) {
      manager.push(one, 100);
      steps.push(manager.free);
    }
    expect(steps).toEqual([8, 5, 2, 1, 0]);
    for (const one of sequences) manager.remove(one);
    // Theirs takes three blocks of the second one; two of these are free here, and go first.
    manager.pass(range(24, 35));
    expect(manager.stored(range(12, 22))).toBe(8);
    expect(manager.pass(range(0, 11))).toBe(11);
  });

  test("[KV36] T 16: what has expired goes before what was worth less", () => {
    const manager = new CacheManager({ blocks: 8, blockTokens: 4 });
    manager.pass(range(0, 11), { retention: worth(80, { durationMs: 10 }) });
    manager.pass(range(12, 23), { retention: worth(50) });
    manager.cache.advance(50);
    manager.pass(Array.from({ length: 12 }, () => 1));
    expect(manager.stored(range(0, 11))).toBeLessThan(11);
    expect(manager.pass(range(12, 23))).toBe(11);
  });

  test("[KV35] T 1.3: a hit without retention keeps the block's priority and duration", () => {
    const manager = new CacheManager({ blocks: 6, blockTokens: 4 });
    manager.pass(range(0, 7), { retention: worth(91, { durationMs: 60 }) });
    manager.cache.advance(40);
    const finder = manager.add(range(0, 4));
    expect(finder.cached).toBe(4);
    manager.cache.advance(70);
    expect(manager.cache.priorityOf(finder.table.get(0))).toBe(91);
    manager.remove(finder);
    const [block] = manager.cache.match("", Int32Array.from(range(0, 4))).blocks;
    if (block === undefined) throw new Error("Nothing is found");
    manager.cache.advance(129);
    expect(manager.cache.priorityOf(block)).toBe(91);
    manager.cache.advance(130);
    expect(manager.cache.priorityOf(block)).toBe(35);
  });

  test("[KV35] T 1.3: a hit with retention replaces both, an unset duration, too", () => {
    for (const [said, atTheEnd] of [
      [worth(80), 80],
      [worth(80, { durationMs: 5 }), 35],
    ] as const) {
      const manager = new CacheManager({ blocks: 6, blockTokens: 4 });
      manager.pass(range(0, 7), { retention: worth(91, { durationMs: 60 }) });
      manager.pass(range(0, 4), { retention: said });
      const [block] = manager.cache.match("", Int32Array.from(range(0, 4))).blocks;
      if (block === undefined) throw new Error("Nothing is found");
      expect(manager.cache.priorityOf(block)).toBe(80);
      manager.cache.advance(59);
      expect(manager.cache.priorityOf(block)).toBe(atTheEnd);
    }
  });

  test("[KV36] T 17: a tail of generated tokens expires, and goes before what it continues", () => {
    const manager = new CacheManager({ blocks: 9, blockTokens: 4 });
    const a = manager.add([1, 1, ...range(2, 11)], {
      retention: worth(50, { decode: { priority: 50 } }),
    });
    const decode = { priority: 100, durationMs: 20 };
    const b = manager.add(range(0, 11), {
      retention: { ranges: [], decodePriority: 100, decodeDurationMs: decode.durationMs },
    });
    manager.push(a, 50, 51, 52);
    manager.push(b, 60, 61, 62);
    manager.remove(a);
    manager.remove(b);
    manager.cache.advance(50);
    manager.pass(zeros(8));
    // Theirs loses the last block of the prompt and keeps the tail, which no prompt finds: 8.
    expect(manager.pass(range(0, 11))).toBe(11);
  });

  test("[KV11] T 18: a block that is computed twice counts twice, so nothing is lost with one", () => {
    const manager = new CacheManager({ blocks: 4, blockTokens: 4, hostBlocks: 4 });
    manager.pass(range(0, 11));
    manager.pass([1, 1, ...range(2, 11)]);
    const c = manager.add(range(0, 3));
    expect(c.cached).toBe(3);
    manager.push(c, 4, 5, 6, 7, 0, 0);
    manager.remove(c);
    // Theirs keeps the first copy alone, which is in host memory, and finds 4; they name 9 ideal.
    expect(manager.pass([...range(0, 7), 0, 0])).toBe(9);
  });

  test("[KV2] T 19: without a block left nothing is added", () => {
    const manager = new CacheManager({ blocks: 4, blockTokens: 4 });
    const a = manager.add(range(0, 3));
    manager.push(a, 9);
    manager.remove(a);
    const b = manager.add([1, 1, 2, 3]);
    const c = manager.add([2, 1, ...range(2, 11)]);
    expect(manager.free).toBe(0);
    manager.remove(b);
    manager.remove(c);
    const again = manager.add([2, 1, ...range(2, 11)]);
    expect(again.cached).toBe(11);
    expect(manager.free).toBe(1);
    manager.push(again, 5);
    expect(manager.free).toBe(0);
    expect(() => manager.add([7])).toThrow("No free block");
  });

  test("[KV31] T 20: what went to host memory does not keep what it continues", () => {
    const manager = new CacheManager({ blocks: 4, blockTokens: 4, hostBlocks: 1 });
    const a = manager.add(range(0, 3));
    manager.push(a, ...range(4, 11));
    manager.cache.prioritise(a.table, 1, 2, 75);
    const b = manager.add(range(20, 23));
    expect(manager.free).toBe(0);
    manager.remove(a);
    expect(manager.free).toBe(3);
    manager.push(b, 24);
    // The tail is in host memory, and still found.
    expect(manager.stored(range(0, 10))).toBe(11);
    manager.push(b, 25, 26, 27);
    expect(manager.stored(range(0, 10))).toBe(11);
    manager.push(b, 28);
    // Theirs moves the head, whose priority is lower, and loses both blocks behind it.
    expect(manager.stored(range(0, 10))).toBe(8);
    expect(manager.cache.poolStats(1)).toMatchObject({ cached: 1, total: 1 });
  });
});

describe("TensorRT-LLM's scenarios of counting", () => {
  test("[KV24] T 21: beams share full blocks, and each has a last one of its own", () => {
    const manager = new CacheManager({ blocks: 24, blockTokens: 64 });
    const groups = [0, 1].map((group) => {
      const lead = manager.add(range(1000 * group, 1000 * group + 135));
      const beams = [lead, ...Array.from({ length: 7 }, () => manager.fork(lead))];
      expect(24 - manager.free).toBe(10 * group + 3);
      for (const [at, beam] of beams.entries()) manager.push(beam, at);
      expect(24 - manager.free).toBe(10 * (group + 1));
      return beams;
    });
    const third = manager.add(range(5000, 5135));
    const beams = [third, ...Array.from({ length: 7 }, () => manager.fork(third))];
    expect(() => {
      for (const [at, beam] of beams.entries()) manager.push(beam, at);
    }).toThrow("No free block");
    for (const beam of groups.flat()) manager.remove(beam);
    for (const beam of beams) manager.remove(beam);
    expect(manager.free).toBe(24);
  });

  test("[KV3] T 22: a rewind gives the blocks back that it empties", () => {
    const manager = new CacheManager({ blocks: 80, blockTokens: 64, prefixCaching: false });
    const sequence = manager.add(range(1, 575));
    const free = [manager.free];
    for (const count of [1, 1, 3]) {
      manager.push(sequence, ...range(1, count));
      free.push(manager.free);
    }
    while (sequence.tokens.length > 576) sequence.tokens.pop();
    manager.cache.shrink(sequence.table, manager.cache.blocksFor(576));
    free.push(manager.free);
    expect(free).toEqual([71, 71, 70, 70, 71]);
    manager.remove(sequence);
    expect(manager.free).toBe(80);
  });

  test("[KV3] T 22: each of eight sequences takes a block for two tokens, and gives it back", () => {
    const manager = new CacheManager({ blocks: 80, blockTokens: 64, prefixCaching: false });
    for (let at = 0; at < 8; at++) {
      const sequence = manager.add(range(1, 575));
      manager.push(sequence, 1, 2);
      expect(manager.free).toBe(80 - 9 * at - 10);
      manager.cache.shrink(sequence.table, 9);
      expect(manager.free).toBe(80 - 9 * at - 9);
    }
  });

  test("[KV3] T 23: blocks that another sequence holds, too, stay when a sequence ends", () => {
    const manager = new CacheManager({ blocks: 8, blockTokens: 4 });
    const sequence = manager.add(range(0, 9));
    const pin = manager.fork(sequence);
    manager.remove(sequence);
    expect(manager.free).toBe(5);
    manager.remove(pin);
    expect(manager.free).toBe(8);
  });

  test("[KV7] T 30: blocks are counted as used again, and as missed", () => {
    const manager = new CacheManager({ blocks: 8, blockTokens: 4 });
    const first = manager.add(range(0, 8));
    expect(manager.cache.stats().levels[0]?.hitTokens).toBe(0);
    expect(first.table.length).toBe(3);
    manager.remove(first);
    const second = manager.add(range(0, 8));
    expect(manager.cache.stats().levels[0]?.hitTokens).toBe(8);
    expect([second.cached / 4, second.table.length - second.cached / 4]).toEqual([2, 1]);
  });

  test("[KV23] T 31: seven usable tokens are a full block and a start of three", () => {
    const manager = new CacheManager({ blocks: 8, blockTokens: 4 });
    manager.pass(range(0, 9));
    expect(manager.stored(range(0, 9))).toBe(9);
    expect(manager.add(range(0, 7)).cached).toBe(7);
    const full = new CacheManager({ blocks: 8, blockTokens: 4, partialReuse: false });
    full.pass(range(0, 9));
    expect(full.stored(range(0, 9))).toBe(8);
    expect(full.add(range(0, 7)).cached).toBe(4);
  });

  test.for([
    { tokens: 136, blocks: 9 },
    { tokens: 512, blocks: 32 },
    { tokens: 513, blocks: 33 },
  ])("[KV2] T 33: $tokens tokens need $blocks blocks of 16", ({ tokens, blocks }) => {
    const manager = new CacheManager({ blocks: 40, blockTokens: 16 });
    expect(manager.cache.blocksFor(tokens)).toBe(blocks);
    expect(manager.add(range(1, tokens)).table.length).toBe(blocks);
  });
});

describe("TensorRT-LLM's scenarios of identity", () => {
  const extraTokens = [...range(100, 105), 0, 1, 2];
  const withIds = (...extraIds: number[]) => ({ keys: { extraIds } });

  test("[KV7] T 24: tokens are equal only where their extra ids are", () => {
    const manager = new CacheManager({ blocks: 16, blockTokens: 4 });
    manager.pass(extraTokens, withIds(1, 1, 2, 2, 3, 3, 0, 0, 0));
    expect(manager.pass(extraTokens, withIds(1, 1, 2, 2, 3, 3, 0, 0, 0))).toBe(8);
    expect(manager.pass(extraTokens, withIds(2, 2, 3, 3, 4, 4, 0, 0, 0))).toBe(0);
    expect(manager.pass(extraTokens, withIds(1, 1, 2, 2, 4, 4, 0, 0, 0))).toBe(4);
  });

  const item = (letter: string, start: number, length: number) => {
    return { hash: letter.repeat(64), start, length };
  };

  test("[KV7] T 25: images that differ are not shared, nor what follows them", () => {
    const manager = new CacheManager({ blocks: 16, blockTokens: 4 });
    const one = { keys: { items: [item("a", 2, 4)] } };
    manager.pass(extraTokens, one);
    expect(manager.pass(extraTokens, one)).toBe(8);
    expect(manager.pass(extraTokens, { keys: { items: [item("b", 2, 4)] } })).toBe(0);
    const two = { keys: { items: [item("a", 2, 2), item("c", 4, 2)] } };
    expect(manager.pass(extraTokens, two)).toBe(4);
  });

  test("[KV9] T 26: adapters never share, nor does one with none", () => {
    const manager = new CacheManager({ blocks: 16, blockTokens: 4 });
    const prompt = range(0, 8);
    manager.pass(prompt, { loraId: 0 });
    expect(manager.pass(prompt, { loraId: 1 })).toBe(0);
    expect(manager.pass(prompt, { loraId: 1 })).toBe(8);
    expect(manager.pass(prompt)).toBe(0);
    expect(manager.pass(prompt, { loraId: 0 })).toBe(8);
    expect(manager.pass(prompt)).toBe(8);
  });

  test("[KV9] T 27: salts never share, nor does one with none", () => {
    const manager = new CacheManager({ blocks: 32, blockTokens: 4 });
    const prompt = range(0, 8);
    manager.pass(prompt);
    expect(manager.pass(prompt, { salt: "12345" })).toBe(0);
    expect(manager.pass(prompt, { salt: "12345" })).toBe(8);
    expect(manager.pass(prompt, { salt: "67890" })).toBe(0);
    expect(manager.pass(prompt)).toBe(8);
  });
});

describe("starts of blocks", () => {
  /** Three full blocks of eight and a sequence that still holds them. */
  function held(blocks = 8) {
    const manager = new CacheManager({ blocks, blockTokens: 8, hostBlocks: 4 });
    const first = manager.add(range(0, 16));
    manager.store(first);
    return { manager, first };
  }

  test("[KV25] T 28: the start of a held block is a copy of the whole block", () => {
    const { manager, first } = held();
    const second = manager.add(range(0, 11));
    expect(second.cached).toBe(11);
    expect(second.table.get(0)).toBe(first.table.get(0));
    expect(second.table.get(1)).not.toBe(first.table.get(1));
    expect(manager.cache.takeMoves()).toEqual([
      { kind: "copy", from: first.table.get(1), to: second.table.get(1) },
    ]);
  });

  test("[KV27] T 28: each block goes to host memory and comes back, in the order of need", () => {
    const { manager, first } = held(4);
    const blocks = [...first.table.view()];
    manager.remove(first);
    const other = manager.add(range(100, 131));
    const out = manager.cache.takeMoves();
    expect(out.map(({ kind }) => kind)).toEqual(["offload", "offload"]);
    expect(new Set(out.map(({ from }) => from))).toEqual(new Set(blocks.slice(0, 2)));
    manager.remove(other);
    const again = manager.add(range(0, 16));
    expect(again.cached).toBe(16);
    const back = manager.cache.takeMoves().filter(({ kind }) => kind === "onboard");
    expect(back.map(({ from }) => from)).toEqual(out.map(({ to }) => to).reverse());
    expect(back.map(({ to }) => to)).toEqual([...again.table.view()].slice(0, 2));
    expect(manager.levels(again)).toEqual([0, 0, 0]);
  });

  test("[KV25] the start of a block in host memory is copied from there", () => {
    const { manager, first } = held(4);
    manager.remove(first);
    manager.remove(manager.add(range(100, 131)));
    manager.cache.takeMoves();
    const second = manager.add(range(0, 3));
    expect(second.cached).toBe(3);
    const moves = manager.cache.takeMoves().filter(({ to }) => to === second.table.get(0));
    expect(moves.map(({ kind, from }) => [kind, manager.cache.levelOf(from)])).toEqual([
      ["onboard", 1],
    ]);
    expect(manager.stored(range(0, 7))).toBe(8);
  });

  test("[KV25] a copy is worth what its source is, and a block taken over keeps its worth", () => {
    const manager = new CacheManager({ blocks: 8, blockTokens: 4 });
    const first = manager.add(range(0, 8), { retention: worth(80, { durationMs: 10 }) });
    manager.store(first);
    const [, second] = manager.held(first);
    const copy = manager.add([0, 1, 2, 9]);
    expect(manager.cache.priorityOf(copy.table.get(0))).toBe(80);
    manager.remove(copy, 0);
    manager.remove(first);
    const taken = manager.add([...range(0, 5), 9]);
    expect(manager.held(taken)[1]).toBe(second);
    expect(manager.cache.priorityOf(taken.table.get(1))).toBe(80);
    // The next holder says nothing, so its time counts again from the last release.
    manager.remove(taken);
    manager.cache.advance(9);
    expect(manager.cache.stats().levels[0]?.expired).toBe(0);
    manager.cache.advance(10);
    expect(manager.cache.stats().levels[0]?.expired).toBe(2);
  });

  test("[KV25] without copies only blocks that are neither held nor continued are used in part", () => {
    const manager = new CacheManager({ blocks: 8, blockTokens: 4, copyOnPartialReuse: false });
    const first = manager.add(range(0, 8));
    manager.store(first);
    expect(manager.pass([0, 1, 2, 9])).toBe(0);
    expect(manager.add([...range(0, 5), 9]).cached).toBe(4);
    manager.remove(first);
    expect(manager.add([...range(0, 5), 9]).cached).toBe(6);
  });

  test("[KV23] blocks with images are never used in part", () => {
    const manager = new CacheManager({ blocks: 8, blockTokens: 4 });
    const keys = { items: [{ hash: "a".repeat(64), start: 1, length: 2 }] };
    manager.pass(range(0, 7), { keys });
    expect(manager.pass([0, 1, 2, 9, 9], { keys })).toBe(0);
    expect(manager.pass(range(0, 7), { keys })).toBe(4 + 3);
  });

  test("[KV26] a tail is stored once, and not while others hold its block", () => {
    const manager = new CacheManager({ blocks: 8, blockTokens: 4 });
    const first = manager.add(range(0, 6));
    const fork = manager.fork(first);
    manager.remove(first);
    expect(manager.stored(range(0, 5))).toBe(4);
    manager.remove(fork);
    expect(manager.stored(range(0, 5))).toBe(6);
    const cached = manager.cache.poolStats().cached;
    manager.pass(range(0, 5));
    expect(manager.cache.poolStats().cached).toBe(cached);
  });
});
