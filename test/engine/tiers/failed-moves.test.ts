/** Moves and jobs of which one fails: every job ends once, and nothing wrong comes to the disk. */
import { expect, test } from "vitest";
import type { Device, MovesMark } from "#devices";
import type { BlockMove, DiskJob, FinishedDiskJob } from "#kvcache";
import { type DiskFiles, systemFiles } from "../../../src/engine/tiers/disk-files.ts";
import type { LevelMover } from "../../../src/engine/tiers/level-mover.ts";
import { copy, file, finished, offload, onboard, onDisk, onHost, setUp } from "./mover-setup.ts";

/** Lets calls pass until one fails. */
class Calls {
  /** Calls that pass before one fails. */
  left = Number.POSITIVE_INFINITY;
  count = 0;
  readonly error: Error;

  constructor(code: string) {
    this.error = Object.assign(new Error(`failed with ${code}`), { code });
  }

  pass(): void {
    this.count++;
    if (this.left-- === 0) throw this.error;
  }
}

/** A device that counts what it is asked to move. */
function countedMoves(calls: Calls): (device: Device) => Device {
  return (device) =>
    Object.assign(Object.create(device), {
      copyBlocks: (...args: Parameters<Device["copyBlocks"]>) => {
        calls.pass();
        device.copyBlocks(...args);
      },
      offloadBlocks: (...args: Parameters<Device["offloadBlocks"]>) => {
        calls.pass();
        device.offloadBlocks(...args);
      },
      onboardBlocks: (...args: Parameters<Device["onboardBlocks"]>) => {
        calls.pass();
        device.onboardBlocks(...args);
      },
    });
}

const transfer = (kind: "read" | "write", index: number): DiskJob => ({
  ...{ kind, host: onHost(index), disk: onDisk(index), file: file(index) },
});
const deletion = (index: number): DiskJob => ({
  ...{ kind: "delete", disk: onDisk(index), file: file(index) },
});

/** How a job ends where the contents of host memory are unknown. */
function untried(job: DiskJob): FinishedDiskJob {
  if (job.kind === "delete") return { job, ok: true };
  return job.kind === "write" ? { job, ok: false } : { job, ok: false, unreadable: true };
}

/** How these jobs ended, in their order; more ends than jobs are an error, as are fewer. */
async function endsOf(mover: LevelMover, jobs: readonly DiskJob[]) {
  const ends = await finished(mover, jobs.length);
  await mover.idle();
  expect(mover.takeFinished()).toEqual([]);
  expect(new Set(ends.map(({ job }) => job))).toEqual(new Set(jobs));
  return jobs.map((job) => ends.find((end) => end.job === job));
}

/** Each is a call of its own, since its neighbours are of other kinds. */
const moves: readonly BlockMove[] = [
  copy(0, 1),
  offload(1, 0),
  onboard(2, 3),
  copy(3, 4),
  onboard(3, 5),
  offload(5, 4),
];
const jobs = [transfer("write", 0), transfer("read", 1), deletion(2), transfer("write", 4)];

test.for(moves.map(({ kind }, at) => ({ kind, at })))(
  "$kind fails as move $at: it is told each time, and jobs end though none can succeed",
  async ({ at }) => {
    const calls = new Calls("ENOMEM");
    const { mover } = await setUp({ around: countedMoves(calls) });
    calls.left = at;
    expect(() => mover.carryOut(moves, jobs)).toThrow(calls.error);
    expect(await endsOf(mover, jobs)).toEqual(jobs.map(untried));
    // The device would go on, but on what the failed move did not bring.
    const later = [transfer("write", 3), deletion(3)];
    expect(() => mover.carryOut([copy(0, 1)], later)).toThrow(calls.error);
    expect(() => mover.carryOut([], [])).toThrow(calls.error);
    expect(await endsOf(mover, later)).toEqual(later.map(untried));
    expect(calls.count).toBe(at + 1);
    const { copy: copied, offload: offloaded, onboard: onboarded, disk } = mover.stats();
    expect(copied.blocks + offloaded.blocks + onboarded.blocks).toBe(at);
    expect([disk?.writes.count, disk?.reads.count]).toEqual([0, 0]);
  },
);

test("jobs that were given before a move failed are carried out", async () => {
  const calls = new Calls("ENOMEM");
  let isDone = false;
  const mark: MovesMark = { isDone: () => isDone };
  const around = (device: Device): Device =>
    Object.assign(countedMoves(calls)(device), { markMoves: () => mark });
  const { mover } = await setUp({ around });
  const [before, after] = [transfer("write", 0), transfer("write", 1)];
  mover.carryOut([offload(0, 0)], [before]);
  calls.left = 0;
  expect(() => mover.carryOut([offload(1, 1)], [after])).toThrow(calls.error);
  expect(mover.takeFinished()).toEqual([]);
  isDone = true;
  expect(await endsOf(mover, [before, after])).toEqual([{ job: before, ok: true }, untried(after)]);
});

/** How the file system fails, and what a job comes to by it. */
const diskFailures = [
  { kind: "write", code: "ENOSPC", outcome: { ok: false } },
  { kind: "read", code: "EIO", outcome: { ok: false, unreadable: true } },
  { kind: "read", code: "ENOENT", outcome: { ok: false } },
] as const;

test.for(diskFailures.flatMap((failure) => [0, 1, 2, 3].map((at) => ({ ...failure, at }))))(
  "$kind fails with $code as job $at: it alone is to blame, and moves go on",
  async ({ kind, code, outcome, at }) => {
    const calls = new Calls(code);
    const files: DiskFiles = { ...systemFiles };
    const { mover } = await setUp({ files });
    const all = [0, 1, 2, 3].map((index) => transfer(kind, index));
    // Files to read, and folders that need not be made.
    const writes = all.map((_, index) => transfer("write", index));
    mover.carryOut([], writes);
    await endsOf(mover, writes);
    calls.left = at;
    const call = kind === "write" ? "create" : "open";
    Object.assign(files, {
      [call]: async (path: string, parts: readonly Uint8Array[]) => {
        calls.pass();
        return systemFiles[call](path, parts);
      },
    });
    mover.carryOut([], all);
    const ends = await endsOf(mover, all);
    expect(ends[at]).toEqual({ job: all[at], ...outcome });
    for (const end of ends.slice(0, at)) expect(end?.ok).toBe(true);
    mover.carryOut([copy(0, 1)], []);
  },
);

test.for([0, 1, 2])("a bug met by job %i ends that job, and is told", async (at) => {
  const calls = new Calls("bug");
  const around = (device: Device): Device =>
    Object.assign(Object.create(device), {
      hostBlock: (...args: Parameters<Device["hostBlock"]>) => {
        calls.pass();
        return device.hostBlock(...args);
      },
    });
  const { mover } = await setUp({ around });
  calls.left = at;
  const all = [0, 1, 2].map((index) => transfer("write", index));
  mover.carryOut([], all);
  const ends = await endsOf(mover, all);
  expect(ends.map((end) => end?.ok)).toEqual(all.map((_, index) => index !== at));
  expect(() => mover.carryOut([], [])).toThrow(calls.error);
});
