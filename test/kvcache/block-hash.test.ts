import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import type { NodeId } from "../../src/kvcache/contents/prefix-tree.ts";
import { BLOCK_HASH_ALGORITHMS, type BlockContent } from "../../src/kvcache/naming/block-hash.ts";
import { createBlockHasher } from "../../src/kvcache/naming/hashers.ts";
import { saltId } from "../../src/kvcache/naming/v1-block-key-hasher.ts";

const node = (index: number) => index as NodeId; // as the tree numbers them

function content(tokens: readonly number[], extras: Partial<BlockContent> = {}): BlockContent {
  const plain = { loraId: null, cacheSalt: null, multimodalKeys: [] };
  return { ...plain, tokens: Int32Array.from(tokens), ...extras };
}

const sha256 = (...bytes: readonly (number | Uint8Array)[]) =>
  createHash("sha256")
    .update(
      Buffer.concat(bytes.map((part) => Buffer.from(typeof part === "number" ? [part] : part))),
    )
    .digest();
const text = (value: string) => Buffer.from(value, "utf8");

/** NONE_HASH of vLLM processes with PYTHONHASHSEED=0: the text "0" in CBOR, hashed. */
const NONE = sha256(0x61, text("0"));
const item = { hash: "ab".repeat(32), startOffset: 5 };

test("v1_block_key chains through the tree's nodes to the known answers (T 1.9)", () => {
  const hasher = createBlockHasher("v1_block_key", { nodes: 4 });
  hasher.set(node(3), null, content([1, 2, 3, 4]));
  hasher.set(node(0), node(3), content([5, 6]));
  hasher.set(node(1), null, content([1, 2, 3, 4], { loraId: 123 }));
  expect(hasher.hashOf(node(3))).toBe(924206229973855n);
  expect(hasher.hashOf(node(0))).toBe(6875034662206558884n);
  expect(hasher.hashOf(node(1))).toBe(15718075209399076427n);
  expect(Buffer.from(hasher.digestOf(node(0))).readBigUInt64BE()).toBe(6875034662206558884n);
});

test("a salt becomes the first eight bytes of its SHA-256", () => {
  expect(saltId("tenant")).toBe(sha256(text("tenant")).readBigUInt64BE());
});

test("sha256_cbor is SHA-256 of canonical CBOR, byte by byte (V 1.2)", () => {
  const hasher = createBlockHasher("sha256_cbor", { nodes: 2 });
  hasher.set(node(0), null, content([1, 23, 24, 255, 256, 65535, 65536]));
  const tokens = [0x87, 1, 23, 0x18, 24, 0x18, 255, 0x19, 1, 0, 0x19, 255, 255, 0x1a, 0, 1, 0, 0];
  const root = sha256(0x83, 0x58, 32, NONE, ...tokens, 0xf6);
  expect(hasher.digestOf(node(0))).toEqual(new Uint8Array(root));
  expect(hasher.hashOf(node(0))).toBe(root.readBigUInt64BE(24));

  hasher.set(node(1), node(0), content([7]));
  const child = sha256(0x83, 0x58, 32, root, 0x81, 7, 0xf6);
  expect(hasher.hashOf(node(1))).toBe(child.readBigUInt64BE(24));
});

test("sha256_cbor hashes adapter, items, salt and extra ids in this order", () => {
  const hasher = createBlockHasher("sha256_cbor", { nodes: 2 });
  const extras = { loraId: 300, cacheSalt: "s", multimodalKeys: [item], extraIds: [9, 0] };
  hasher.set(node(0), null, content([1, 2], extras));
  const keys = [0x19, 1, 44, 0x82, 0x78, 64, text(item.hash), 0x24];
  const ids = [0x82, 9, 0];
  const root = sha256(0x83, 0x58, 32, NONE, 0x82, 1, 2, 0x84, ...keys, 0x61, text("s"), ...ids);
  expect(hasher.hashOf(node(0))).toBe(root.readBigUInt64BE(24));

  // Below the root the salt is in the parent's digest already.
  hasher.set(node(1), node(0), content([3], { cacheSalt: "s" }));
  expect(hasher.hashOf(node(1))).toBe(
    sha256(0x83, 0x58, 32, root, 0x81, 3, 0xf6).readBigUInt64BE(24),
  );
});

test("sha256_cbor: equal seeds make equal hashes in any process, others do not (V 5.1 (19))", () => {
  const rootOf = (seed?: string) => {
    const hasher = createBlockHasher("sha256_cbor", { nodes: 1, ...(seed ? { seed } : {}) });
    hasher.set(node(0), null, content([1, 2, 3]));
    return hasher.hashOf(node(0));
  };
  expect(rootOf("seven")).toBe(rootOf("seven"));
  expect(rootOf()).toBe(rootOf("0"));
  expect(rootOf("seven")).not.toBe(rootOf("eight"));
});

test.each(BLOCK_HASH_ALGORITHMS)("%s tells every part of a block's identity apart", (algorithm) => {
  const tokens = [1, 2, 3, 4];
  const contents: readonly BlockContent[] = [
    content(tokens),
    content([1, 2, 3]),
    content([1, 2, 4, 3]),
    content(tokens, { loraId: 0 }),
    content(tokens, { loraId: 1 }),
    content(tokens, { cacheSalt: "a" }),
    content(tokens, { cacheSalt: "b" }),
    content(tokens, { extraIds: [0, 0, 0, 0] }),
    content(tokens, { extraIds: [0, 0, 0, 1] }),
    content(tokens, { multimodalKeys: [{ ...item, startOffset: 0 }] }),
    content(tokens, { multimodalKeys: [item] }),
    content(tokens, { multimodalKeys: [{ ...item, hash: "cd".repeat(32) }] }),
  ];
  const hasher = createBlockHasher(algorithm, { nodes: contents.length * 2 });
  contents.forEach((each, index) => {
    hasher.set(node(index), null, each);
    hasher.set(node(contents.length + index), node(index), content(tokens));
  });
  const hashes = contents.flatMap((_, index) => [
    hasher.hashOf(node(index)),
    hasher.hashOf(node(contents.length + index)),
  ]);
  expect(new Set(hashes).size).toBe(hashes.length);
});
