/** A mover with real bytes on all levels, and the moves and jobs that it is asked for. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { systemClock, systemTimer } from "#base";
import { type Device, type DeviceKind, openDevice } from "#devices";
import { type BlockFile, type BlockMove, blockId, type FinishedDiskJob } from "#kvcache";
import type { DiskFiles } from "../../../src/engine/tiers/disk-files.ts";
import { DiskStore } from "../../../src/engine/tiers/disk-store.ts";
import { LevelMover } from "../../../src/engine/tiers/level-mover.ts";

export const DEVICE_BLOCKS = 6;
export const HOST_BLOCKS = 5;
const SHAPE = { format: "f32", layers: 2, blockTokens: 4, kvHeads: 2, headDim: 16 } as const;

interface Setup {
  readonly kind?: DeviceKind;
  readonly files?: DiskFiles;
  /** Replaces methods of the device. */
  readonly around?: (device: Device) => Device;
}

/** A device with a few blocks, host memory and a disk store in a folder of its own. */
export async function setUp({ kind = "reference", files, around = (same) => same }: Setup = {}) {
  const dir = mkdtempSync(join(tmpdir(), "perigee-mover-"));
  const own = await openDevice({ kind, warn: () => {} });
  const device = around(own);
  const cache = own.allocateKvPool({ ...SHAPE, blocks: DEVICE_BLOCKS });
  const host = own.allocateHostBlocks(cache, HOST_BLOCKS);
  const opened = await DiskStore.open({
    dir,
    fingerprint: "0".repeat(32),
    hashRule: "sha256_cbor",
    blockTokens: SHAPE.blockTokens,
    bytesPerBlock: cache.bytesPerBlock,
    capacityBlocks: 10,
    clock: systemClock,
    timer: systemTimer,
    warn: () => {},
    ...(files === undefined ? {} : { files }),
  });
  if (opened === null) throw new Error("no store");
  let wakes = 0;
  const { store } = opened;
  const onFinished = () => void wakes++;
  const times = { clock: systemClock, timer: systemTimer };
  const mover = new LevelMover({ device, cache, host, store, ...times, onFinished });
  onTestFinished(async () => {
    await mover.drain();
    own.dispose();
    rmSync(dir, { recursive: true, force: true });
  });
  const fill = (index: number, value: number) => own.hostBlock(host, index).fill(value);
  const seen = async (index: number) => {
    await own.synchronize();
    return [...new Set(own.hostBlock(host, index))];
  };
  return { mover, cache, fill, seen, wakes: () => wakes };
}

/** Blocks of each level, by place. */
export const onDevice = (index: number) => blockId(index);
export const onHost = (index: number) => blockId(DEVICE_BLOCKS + index);
export const onDisk = (index: number) => blockId(DEVICE_BLOCKS + HOST_BLOCKS + index);

/** A file of its own for each index. */
export function file(index: number): BlockFile {
  return {
    key: `${index}`.repeat(64),
    parentKey: null,
    scope: "",
    extra: "",
    tokens: Int32Array.of(index, 1, 2, 3),
    priority: 35,
  };
}

/** The next `count` jobs that end, in the order in which they do. */
export async function finished(mover: LevelMover, count: number): Promise<FinishedDiskJob[]> {
  const all = [...mover.takeFinished()];
  while (all.length < count) {
    await new Promise((resolve) => setImmediate(resolve));
    all.push(...mover.takeFinished());
  }
  return all;
}

/** A move from place to place. */
export const onboard = (from: number, to: number): BlockMove => ({
  kind: "onboard",
  from: onHost(from),
  to: onDevice(to),
});
export const offload = (from: number, to: number): BlockMove => ({
  kind: "offload",
  from: onDevice(from),
  to: onHost(to),
});
export const copy = (from: number, to: number): BlockMove => ({
  kind: "copy",
  from: onDevice(from),
  to: onDevice(to),
});
