/**
 * node bench/disk-store.mjs [--dir DIR] [--kib 64,1024] [--mib 256] [--scan 10000] [--out FILE]
 *
 * How fast blocks go to files and come back, through the store with its checksums and bounded
 * concurrency, beside plain reads and writes of the same files; how long opening takes by number of
 * blocks. Files stay in the system's page cache: what is measured is the way, not the platter.
 * Runs dist; prints JSON.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readFlags } from "../tools/flags.mjs";
import { blockFile, fillPayload, openStore } from "./disk-blocks.mjs";
import { describeMachine, printResult } from "./machine.mjs";

const { values: flags } = readFlags({
  options: {
    dir: { type: "string", default: tmpdir() },
    kib: { type: "numbers", default: [64, 1024], min: 1 },
    mib: { type: "number", default: 256 },
    scan: { type: "number", default: 10000 },
    out: { type: "string" },
  },
});

/** As many as the store reads at a time. */
const PLAIN_WIDTH = 4;
const SCAN_BYTES = 4096;

const rounded = (value) => Math.round(value * 100) / 100;
const gbPerSecond = (bytes, ms) => rounded(bytes / ms / 1e6);

async function timed(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Runs `task` for 0 up to `count`, `width` at a time. */
async function inParallel(count, width, task) {
  let next = 0;
  const runner = async () => {
    while (next < count) await task(next++);
  };
  await Promise.all(Array.from({ length: width }, runner));
}

/** Plain files of the same size: what the disk and Node allow. */
async function plainSpeeds(dir, bytes, count) {
  mkdirSync(dir);
  const payload = fillPayload(new Uint8Array(bytes), 1);
  const path = (index) => join(dir, String(index));
  const write = (index) => writeFile(path(index), payload);
  const writeMs = await timed(() => inParallel(count, PLAIN_WIDTH, write));
  const readMs = await timed(() =>
    inParallel(count, PLAIN_WIDTH, (index) => readFile(path(index))),
  );
  return { writeMs, readMs };
}

async function measureSpeed(bytes, totalBytes) {
  const dir = mkdtempSync(join(flags.dir, "perigee-disk-"));
  const count = Math.floor(totalBytes / bytes);
  const { store } = await openStore(dir, bytes, console.error);
  const payload = fillPayload(new Uint8Array(bytes), 1);
  const files = Array.from({ length: count }, (_, index) => blockFile(index));
  const writeMs = await timed(() => Promise.all(files.map((file) => store.write(file, payload))));
  const buffers = Array.from({ length: 8 }, () => new Uint8Array(bytes));
  const read = (index) => store.read(files[index], buffers[index % buffers.length]);
  const readMs = await timed(() => inParallel(count, buffers.length, read));
  await store.close();
  const plain = await plainSpeeds(join(dir, "plain"), bytes, count);
  rmSync(dir, { recursive: true });
  const total = bytes * count;
  return {
    kibPerBlock: bytes / 1024,
    blocks: count,
    writeGBps: gbPerSecond(total, writeMs),
    readGBps: gbPerSecond(total, readMs),
    writeUsPerBlock: Math.round((writeMs / count) * 1000),
    readUsPerBlock: Math.round((readMs / count) * 1000),
    plainWriteGBps: gbPerSecond(total, plain.writeMs),
    plainReadGBps: gbPerSecond(total, plain.readMs),
  };
}

async function measureScan(blocks) {
  const dir = mkdtempSync(join(flags.dir, "perigee-disk-"));
  const first = await openStore(dir, SCAN_BYTES, console.error);
  const payload = new Uint8Array(SCAN_BYTES);
  await inParallel(blocks, PLAIN_WIDTH, (index) => first.store.write(blockFile(index), payload));
  await first.store.close();
  let survivors = 0;
  const openMs = await timed(async () => {
    const opened = await openStore(dir, SCAN_BYTES, console.error);
    survivors = opened.survivors.length;
    await opened.store.close();
  });
  rmSync(dir, { recursive: true });
  return {
    blocks,
    survivors,
    openMs: Math.round(openMs),
    usPerBlock: rounded((openMs / blocks) * 1e3),
  };
}

const totalBytes = flags.mib * 2 ** 20;
const speeds = [];
for (const kib of flags.kib) speeds.push(await measureSpeed(kib * 1024, totalBytes));
const scan = await measureScan(flags.scan);
printResult({ machine: describeMachine(), speeds, scan }, flags.out);
