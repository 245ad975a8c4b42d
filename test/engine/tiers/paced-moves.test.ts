/** Contents that leave beside the steps for blocks that come, with a device's real bytes. */
import { expect, onTestFinished, test } from "vitest";
import { systemClock, systemTimer } from "#base";
import { type Device, openDevice } from "#devices";
import { blockId, type PeerJob } from "#kvcache";
import type { DevicePulls } from "../../../src/engine/tiers/device-pulls.ts";
import { LevelMover } from "../../../src/engine/tiers/level-mover.ts";
import type { PeerLink } from "../../../src/engine/tiers/peer-link.ts";

const BLOCKS = 6;
const SHAPE = { format: "f32", layers: 2, blockTokens: 4, kvHeads: 2, headDim: 16 } as const;

test("[KV82] who waits for all jobs waits for those of a slice that is leaving", async () => {
  const own = await openDevice({ kind: "reference", warn: () => {} });
  onTestFinished(() => own.dispose());
  const cache = own.allocateKvPool({ ...SHAPE, blocks: BLOCKS });
  const host = own.allocateHostBlocks(cache, BLOCKS);
  let hasLeft = false;
  let slices = 0;
  const device: Device = Object.create(own, {
    offloadBeside: {
      value: (...args: Parameters<Device["offloadBeside"]>) => {
        slices++;
        own.offloadBlocks(...args);
        return { isDone: () => hasLeft };
      },
    },
  });
  const filled: number[] = [];
  const peers = {
    receivePlaced: async ({ block }: PeerJob) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      filled.push(block);
      return true;
    },
  } as unknown as PeerLink;
  const mover = new LevelMover({
    ...{ device, cache, host, store: null, peers, pulls: {} as DevicePulls },
    ...{ clock: systemClock, timer: systemTimer, onFinished: () => {} },
    pacedBytes: 2 * cache.bytesPerBlock,
  });
  const blocks = Array.from({ length: BLOCKS }, (_, block) => block);
  mover.carryOut(
    blocks.map((block) => ({
      ...({ kind: "offload", from: blockId(block), to: blockId(BLOCKS + block) } as const),
    })),
    [],
    blocks.map((block) => ({
      ...({ kind: "receive", transfer: 1, piece: block, block: blockId(block) } as const),
    })),
  );
  await expect.poll(() => slices).toBe(1);
  // The rest leaves at once, the first slice when it has left.
  let isIdle = false;
  const idle = mover.idle().then(() => {
    isIdle = true;
  });
  await expect.poll(() => filled.length).toBe(BLOCKS - 2);
  expect(isIdle).toBe(false);
  hasLeft = true;
  await idle;
  expect(filled.toSorted()).toEqual(blocks);
  expect(mover.takeFinishedPeers()).toHaveLength(BLOCKS);
});
