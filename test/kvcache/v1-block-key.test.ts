import { expect, test } from "vitest";
import { V1BlockKey } from "../../src/kvcache/naming/v1-block-key.ts";
import { mixBigInt, mixItem } from "../../src/kvcache/naming/v1-block-key-hasher.ts";

interface Block {
  readonly parent?: bigint;
  readonly tokens: readonly number[];
  readonly salt?: bigint;
  readonly lora?: bigint;
  readonly extraIds?: readonly number[];
  readonly item?: { readonly digest: string; readonly offset: number };
}

function hash(block: Block): bigint {
  const key = new V1BlockKey();
  const parent = block.parent ?? 0n;
  key.start(block.tokens.length, Number(parent & 0xffffffffn), Number(parent >> 32n));
  if (block.salt !== undefined) mixBigInt(key, block.salt);
  key.mixTokens(Int32Array.from(block.tokens), block.extraIds ?? null);
  if (block.lora !== undefined) mixBigInt(key, block.lora);
  if (block.item !== undefined) mixItem(key, block.item.digest, block.item.offset);
  return (BigInt(key.high >>> 0) << 32n) | BigInt(key.low >>> 0);
}

const tokens = [1, 2, 3, 4];
const digest = Buffer.from(Array.from({ length: 32 }, (_, byte) => byte)).toString("hex");

/** Known answers of TensorRT-LLM's own tests (T 1.9). */
const KNOWN: readonly (readonly [name: string, block: Block, answer: bigint])[] = [
  ["four tokens", { tokens }, 924206229973855n],
  ["a child", { tokens: [5, 6], parent: 924206229973855n }, 6875034662206558884n],
  ["a salt", { tokens, salt: 123n }, 6280297290684427985n],
  ["a salted child", { tokens: [5, 6], parent: 6280297290684427985n }, 18177682803760873588n],
  ["an adapter", { tokens, lora: 123n }, 15718075209399076427n],
  ["extra ids of 0", { tokens, extraIds: [0, 0, 0, 0] }, 9433833678277058931n],
  ["extra ids", { tokens, extraIds: [1, 1, 0, 0] }, 10983289155731529191n],
  ["an item's start", { tokens, item: { digest, offset: 0 } }, 757211070935802747n],
  ["an item's middle", { tokens, item: { digest, offset: 4 } }, 4997225756837091351n],
];

test.each(KNOWN)("v1_block_key of %s is TensorRT-LLM's known answer", (_name, block, answer) => {
  expect(hash(block)).toBe(answer);
});

/** The same rule in BigInts, word by word. By remainders: Node 20 crashes on `asUintN` in loops. */
function slowHash(words: readonly number[], parent: bigint): bigint {
  const of32 = (value: bigint) => value % 2n ** 32n;
  const of64 = (value: bigint) => value % 2n ** 64n;
  let seed = BigInt(words.length) ^ of64(parent * 0xbf58476d1ce4e5b9n);
  for (const word of words) {
    let x = BigInt(word >>> 0);
    for (let round = 0; round < 2; round++) x = of32((x ^ (x >> 16n)) * 0x45d9f3bn);
    x = of32((x ^ (x >> 16n)) + 0x9e3779b9n);
    seed ^= of64(x + (seed << 6n) + (seed >> 2n));
  }
  return seed;
}

test("v1_block_key in halves equals the rule in BigInts, along a chain of random blocks", () => {
  let parent = 0n;
  let state = 1;
  for (let block = 0; block < 200; block++) {
    const words = Array.from({ length: 1 + (block % 17) }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) | 0;
      return state;
    });
    const fast = hash({ tokens: words, parent });
    expect(fast).toBe(slowHash(words, parent));
    parent = fast;
  }
});
