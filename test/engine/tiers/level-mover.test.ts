import { expect, onTestFinished, test } from "vitest";
import type { Device } from "#devices";
import { type BlockMove, type DiskJob, LoadCost } from "#kvcache";
import { type DiskFiles, systemFiles } from "../../../src/engine/tiers/disk-files.ts";
import {
  copy,
  DEVICE_BLOCKS,
  file,
  finished,
  HOST_BLOCKS,
  offload,
  onboard,
  onDevice,
  onDisk,
  onHost,
  setUp,
} from "./mover-setup.ts";

type Bench = Awaited<ReturnType<typeof setUp>>;

test.for(["reference", "cpu"] as const)(
  "moves happen in their order, whatever their kinds (%s)",
  async (kind) => {
    const { mover, cache, fill, seen } = await setUp({ kind });
    fill(0, 10);
    fill(1, 20);
    // The last two give block 0's place to what it held before, through block 2.
    mover.carryOut([onboard(0, 0), onboard(1, 1), copy(0, 2), copy(1, 0), copy(2, 1)], []);
    mover.carryOut([offload(0, 2), offload(1, 3), onboard(3, 0), offload(0, 4)], []);
    expect(await seen(2)).toEqual([20]);
    expect(await seen(3)).toEqual([10]);
    expect(await seen(4)).toEqual([10]);
    const { copy: copied, offload: offloaded, onboard: onboarded, disk } = mover.stats();
    expect(copied).toMatchObject({ blocks: 3, bytes: 3 * cache.bytesPerBlock });
    expect([offloaded.blocks, onboarded.blocks]).toEqual([3, 3]);
    expect(disk?.writes.count).toBe(0);
  },
);

test("consecutive moves of one kind are one call to the device", async () => {
  const calls: string[] = [];
  const spying = (device: Device): Device =>
    Object.assign(Object.create(device), {
      copyBlocks: (...args: Parameters<Device["copyBlocks"]>) => {
        calls.push(`copy ${args[1].length / 2}`);
        device.copyBlocks(...args);
      },
      offloadBlocks: (...args: Parameters<Device["offloadBlocks"]>) => {
        calls.push(`offload ${args[2].join()}`);
        device.offloadBlocks(...args);
      },
    });
  const { mover } = await setUp({ around: spying });
  mover.carryOut([copy(0, 1), copy(1, 2), offload(2, 0), offload(1, 4), copy(0, 1)], []);
  mover.carryOut([], []);
  expect(calls).toEqual(["copy 2", "offload 2,0,1,4", "copy 1"]);
});

test("many moves in one call grow the list of pairs", async () => {
  const { mover, fill, seen } = await setUp();
  fill(0, 7);
  const back = Array.from({ length: 300 }, (_, i) =>
    copy(i % DEVICE_BLOCKS, (i + 1) % DEVICE_BLOCKS),
  );
  mover.carryOut([onboard(0, 0), ...back, offload(3, 1)], []);
  expect(await seen(1)).toEqual([7]);
});

test("a move to a block that is on no level of ours stops as our bug", async () => {
  const { mover } = await setUp();
  const wrong: BlockMove = { kind: "offload", from: onDevice(0), to: onDisk(0) };
  expect(() => mover.carryOut([wrong], [])).toThrow("is not on the host");
});

test("a block goes to disk and comes back into another host block", async () => {
  const { mover, fill, seen, wakes, cache } = await setUp();
  fill(0, 42);
  const write: DiskJob = { kind: "write", host: onHost(0), disk: onDisk(0), file: file(1) };
  mover.carryOut([], [write]);
  expect(await finished(mover, 1)).toEqual([{ job: write, ok: true }]);
  fill(0, 0);
  const read: DiskJob = { kind: "read", host: onHost(3), disk: onDisk(0), file: file(1) };
  mover.carryOut([], [read]);
  expect(await finished(mover, 1)).toEqual([{ job: read, ok: true }]);
  expect(await seen(3)).toEqual([42]);
  expect(wakes()).toBe(2);
  const { disk } = mover.stats();
  expect(disk?.writes).toMatchObject({ count: 1, bytes: cache.bytesPerBlock });
  expect(disk?.reads).toMatchObject({ count: 1, bytes: cache.bytesPerBlock });
});

test.for(["write", "read"] as const)(
  "a %s waits until the device is done with its host block",
  async (kind) => {
    let isDone = false;
    const slow = (device: Device): Device =>
      Object.assign(Object.create(device), {
        markMoves: () => ({ isDone: () => isDone }),
        // The whole device may be at work for long: steps go on.
        synchronize: () => Promise.reject(new Error("waited for all")),
      });
    const { mover } = await setUp({ around: slow });
    onTestFinished(() => {
      isDone = true;
    });
    mover.carryOut([], [{ kind, host: onHost(0), disk: onDisk(0), file: file(1) }]);
    mover.carryOut([], [{ kind: "delete", disk: onDisk(0), file: file(1) }]);
    await new Promise((resolve) => setTimeout(resolve, 20));
    // The deletion has to wait for what came before it.
    expect(mover.takeFinished()).toEqual([]);
    expect(mover.stats().disk?.removals).toBe(0);
    isDone = true;
    const done = await finished(mover, 2);
    expect(done.map(({ job, ok }) => [job.kind, ok])).toEqual([
      [kind, kind === "write"],
      ["delete", true],
    ]);
  },
);

test("a job waits for the moves before it, not for those that come while it waits", async () => {
  const marks: { done: boolean }[] = [];
  const slow = (device: Device): Device =>
    Object.assign(Object.create(device), {
      markMoves: () => {
        const mark = { done: false };
        marks.push(mark);
        return { isDone: () => mark.done };
      },
    });
  const { mover } = await setUp({ around: slow });
  const write = (index: number): DiskJob => ({
    ...{ kind: "write", host: onHost(index), disk: onDisk(index), file: file(index) },
  });
  mover.carryOut([offload(0, 0)], [write(0)]);
  mover.carryOut([offload(1, 1)], [write(1)]);
  for (const [index, mark] of marks.entries()) {
    mark.done = true;
    const done = await finished(mover, 1);
    expect(done.map(({ job, ok }) => [job.file.key, ok])).toEqual([[file(index).key, true]]);
  }
  expect(marks).toHaveLength(2);
});

test("what a failed device left in host memory is not written", async () => {
  const failing = (device: Device): Device =>
    Object.assign(Object.create(device), {
      markMoves: () => ({
        isDone: () => {
          throw new Error("the device is gone");
        },
      }),
    });
  const { mover } = await setUp({ around: failing });
  mover.carryOut([], [{ kind: "write", host: onHost(0), disk: onDisk(0), file: file(1) }]);
  expect((await finished(mover, 1))[0]?.ok).toBe(false);
  expect(mover.stats().disk?.writes.count).toBe(0);
});

test("jobs of a device that cannot mark its moves come back as failed", async () => {
  const failing = (device: Device): Device =>
    Object.assign(Object.create(device), {
      markMoves: () => {
        throw new Error("the device is gone");
      },
    });
  const { mover } = await setUp({ around: failing });
  const write: DiskJob = { kind: "write", host: onHost(0), disk: onDisk(0), file: file(1) };
  const read: DiskJob = { kind: "read", host: onHost(1), disk: onDisk(1), file: file(2) };
  mover.carryOut([], [write, read]);
  expect(await finished(mover, 2)).toEqual([
    { job: write, ok: false },
    { job: read, ok: false, unreadable: true },
  ]);
  expect(mover.stats().disk?.writes.count).toBe(0);
});

async function submitMany({ mover }: Bench, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    mover.carryOut(
      [],
      [{ kind: "write", host: onHost(0), disk: onDisk(index), file: file(index) }],
    );
  }
}

test("draining finishes what was submitted, then takes no more", async () => {
  const setup = await setUp();
  await submitMany(setup, 9);
  await setup.mover.drain();
  const done = setup.mover.takeFinished();
  expect(done.map(({ ok }) => ok)).toEqual(Array.from({ length: 9 }, () => true));
  expect(() =>
    setup.mover.carryOut([], [{ kind: "delete", disk: onDisk(0), file: file(0) }]),
  ).toThrow();
});

test("draining within no time drops writes that have not begun, and still reports them", async () => {
  const setup = await setUp();
  await submitMany(setup, 9);
  await setup.mover.drain(AbortSignal.abort());
  const done = setup.mover.takeFinished();
  expect(done).toHaveLength(9);
  expect(done.filter(({ ok }) => ok)).toHaveLength(0);
});

test("a signal in the middle of draining ends it after what is under way", async () => {
  const stop = new AbortController();
  let created = 0;
  const files: DiskFiles = {
    ...systemFiles,
    create: async (path, parts) => {
      created++;
      stop.abort();
      await systemFiles.create(path, parts);
    },
  };
  const setup = await setUp({ files });
  await submitMany(setup, 9);
  await setup.mover.drain(stop.signal);
  expect(setup.mover.takeFinished()).toHaveLength(9);
  expect(created).toBeLessThanOrEqual(2);
});

test("measuring the way to host memory gives a speed to decide by", async () => {
  const { mover, cache } = await setUp({ kind: "cpu" });
  const cost = new LoadCost({
    attentionWeight: 0,
    window: null,
    bytesPerBlock: cache.bytesPerBlock,
  });
  const measured = await mover.measure();
  expect(measured?.bytes).toBe(2 * HOST_BLOCKS * cache.bytesPerBlock);
  if (measured !== null) cost.recordCopy(measured.bytes, measured.ms);
  expect(cost.loadMs(10, 1)).toBeGreaterThan(0);
});
