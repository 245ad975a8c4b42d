import { expect, test } from "vitest";
import { BlockNamer, type HashSecret } from "#cluster/index";
import { Chances, scopeOf } from "../../support/kv-changes.ts";

const secret: HashSecret = [1, 2, 3, 4];
const random = (chances: Chances, count: number) =>
  Uint32Array.from({ length: count }, () => chances.below(2 ** 24) * 200);

test("[CL13] a known beginning changes no name", () => {
  const namer = new BlockNamer(secret);
  const chances = new Chances(1);
  for (let round = 0; round < 100; round++) {
    const tokens = random(chances, chances.below(120));
    const whole = namer.blocksOf(scopeOf(), tokens);
    expect(whole.keys).toHaveLength(Math.floor(tokens.length / 4) * 2);
    const known = namer.blocksOf(scopeOf(), tokens.subarray(0, chances.below(tokens.length + 1)));
    expect(namer.blocksOf(scopeOf(), tokens, known)).toEqual(whole);
    // What is known may be longer than what is asked.
    const shorter = tokens.subarray(0, chances.below(tokens.length + 1));
    expect(namer.blocksOf(scopeOf(), shorter, whole)).toEqual(namer.blocksOf(scopeOf(), shorter));
  }
});

test("[CL13] each token and each part of the scope changes all names from there on", () => {
  const namer = new BlockNamer(secret);
  const tokens = Uint32Array.from({ length: 24 }, (_, at) => at);
  const { keys } = namer.blocksOf(scopeOf(), tokens);
  const all = new Set<number>([...keys]);
  let names = keys.length;
  for (let at = 0; at < tokens.length; at++) {
    const changed = tokens.slice();
    changed[at] = 2 ** 31 + at;
    const other = namer.blocksOf(scopeOf(), changed).keys;
    const same = Math.floor(at / 4) * 2;
    expect(other.subarray(0, same)).toEqual(keys.subarray(0, same));
    for (const half of other.subarray(same)) all.add(half);
    names += other.length - same;
  }
  for (const over of [
    { model: "n" },
    { salt: "" },
    { salt: "null" },
    { lora: "" },
    { group: 1 },
    { blockTokens: 8 },
    { model: "\u{1f600}" },
    { model: "m".repeat(10_000) },
  ]) {
    const other = namer.blocksOf(scopeOf(over), tokens).keys;
    for (const half of other) all.add(half);
    names += other.length;
  }
  // Halves of 32 bits: among some 250 of them none is equal to another.
  expect(all.size).toBe(names);
});

test("[CL13] names of another secret are others, those of the same one are the same", () => {
  const tokens = Uint32Array.of(1, 2, 3, 4);
  const named = (namer: BlockNamer) => [...namer.blocksOf(scopeOf(), tokens).keys];
  const first = named(new BlockNamer(secret));
  expect(named(new BlockNamer(secret))).toEqual(first);
  for (const other of [
    [9, 2, 3, 4],
    [1, 9, 3, 4],
    [1, 2, 9, 4],
    [1, 2, 3, 9],
  ] as const) {
    expect(named(new BlockNamer(other))).not.toEqual(first);
  }
  expect(named(new BlockNamer())).not.toEqual(named(new BlockNamer()));
});

test("[CL13] a bit of a token changes half of its name's bits", () => {
  const namer = new BlockNamer();
  const chances = new Chances(5);
  const bits = (word: number) => {
    let count = 0;
    for (let rest = word >>> 0; rest !== 0; rest &= rest - 1) count++;
    return count;
  };
  let changed = 0;
  const rounds = 4000;
  for (let round = 0; round < rounds; round++) {
    const tokens = random(chances, 4);
    const [low = 0, high = 0] = namer.blocksOf(scopeOf(), tokens).keys;
    const at = chances.below(4);
    tokens[at] = (tokens[at] ?? 0) ^ (1 << chances.below(32));
    const [otherLow = 0, otherHigh = 0] = namer.blocksOf(scopeOf(), tokens).keys;
    changed += bits(low ^ otherLow) + bits(high ^ otherHigh);
  }
  expect(changed / rounds).toBeGreaterThan(31.5);
  expect(changed / rounds).toBeLessThan(32.5);
});

test.for([0, -1, 1.5, 65_537, Number.NaN])("[CL13] no block has %d tokens", (blockTokens) => {
  const namer = new BlockNamer();
  expect(() => namer.blocksOf(scopeOf({ blockTokens }), Uint32Array.of(1))).toThrow(
    /1 to 65536 tokens, current value is/,
  );
});

test("[CL13] more scopes than are remembered are named the same again", () => {
  const namer = new BlockNamer(secret);
  const tokens = Uint32Array.of(1, 2, 3, 4);
  const first = namer.blocksOf(scopeOf({ salt: "0" }), tokens);
  for (let salt = 1; salt < 5000; salt++) namer.blocksOf(scopeOf({ salt: `${salt}` }), tokens);
  expect(namer.blocksOf(scopeOf({ salt: "0" }), tokens)).toEqual(first);
});
