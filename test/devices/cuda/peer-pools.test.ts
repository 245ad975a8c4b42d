/**
 * Pools of another process, on the emulated GPU, whose only process is this one: descriptions are
 * made to say otherwise. bench/gpu/peer-copy.mjs has two processes on a GPU.
 */
import { expect, test } from "vitest";
import { peerPools } from "../../contracts/device-ops/block-moves.ts";
import { describeEmulated } from "./describe-emulated.ts";
import { openEmulated } from "./emulated-device.ts";

const elsewhere = (text: string) =>
  JSON.stringify({ ...(JSON.parse(text) as object), process: "another" });

const shape = { layers: 1, blocks: 40, blockTokens: 16, kvHeads: 2, headDim: 64 } as const;

describeEmulated("pools of other processes", openEmulated, (device) => {
  peerPools(() => device, elsewhere);

  test("those of this process are not opened: the driver does not map them", () => {
    const cache = device.allocateKvPool({ ...shape, format: "bf16" });
    const open = () => device.openPeerPool(device.describePool(cache), cache);
    expect(open).toThrow("the engines must be in processes of their own");
    device.release(cache);
  });

  test.each([
    ["no JSON", () => "{"],
    ["no object", () => "7"],
    ["a short handle", (text: string) => withField(text, "handle", "AAAA")],
    ["no handle", (text: string) => withField(text, "handle", 7)],
    ["no block", (text: string) => withField(text, "blocks", 0)],
    ["half a block", (text: string) => withField(text, "blocks", 1.5)],
    ["more blocks than memory", (text: string) => withField(text, "blocks", 1e6)],
    ["a place before its memory", (text: string) => withField(text, "offset", -16)],
    ["a place behind its memory", (text: string) => withField(text, "offset", 2 ** 40)],
    ["a crooked place", (text: string) => withField(text, "offset", 8)],
    ["memory that is not there", (text: string) => withField(text, "handle", noMemory)],
  ])("a description is refused: %s", (_name, change) => {
    const cache = device.allocateKvPool({ ...shape, format: "bf16" });
    const text = change(elsewhere(device.describePool(cache)));
    expect(() => device.openPeerPool(text, cache)).toThrow("Cannot reach another engine's pool");
    device.release(cache);
  });

  test("blocks far apart and side by side come in one call", async () => {
    const [cache, other] = [0, 1].map(() => device.allocateKvPool({ ...shape, format: "bf16" }));
    if (cache === undefined || other === undefined) throw new Error("two pools are wanted");
    const host = device.allocateHostBlocks(cache, shape.blocks);
    for (let block = 0; block < shape.blocks; block++) {
      device.hostBlock(host, block).fill(block + 1);
    }
    const all = Int32Array.from({ length: 2 * shape.blocks }, (_, at) => at >> 1);
    device.onboardBlocks(cache, host, all);
    await device.synchronize();
    const peer = device.openPeerPool(elsewhere(device.describePool(cache)), other);
    const order = [...Array(20).keys()].map((at) => [at + 5, at + 2] as const);
    const apart = [0, 30, 39].map((from, at) => [from, 30 + 3 * at] as const);
    const pairs = [...order, ...apart];
    const mark = device.pullBlocks(other, peer, Int32Array.from(pairs.flat()));
    while (!mark.isDone()) await new Promise((resolve) => setTimeout(resolve, 1));
    device.offloadBlocks(other, host, all);
    await device.synchronize();
    for (const [from, to] of pairs) {
      expect(device.hostBlock(host, to).every((byte) => byte === from + 1)).toBe(true);
    }
    for (const memory of [peer, host, cache, other]) device.release(memory);
  });
});

const noMemory = Buffer.alloc(64, 1).toString("base64");

function withField(text: string, field: string, value: unknown): string {
  return JSON.stringify({ ...(JSON.parse(text) as object), [field]: value });
}
