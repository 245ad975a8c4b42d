// node bench/gpu/reading.mjs FILE [--threads 1,2,4,6]
//
// How fast a file leaves the system's cache for memory that a GPU could copy from: through a
// mapping, by one thread's reads, and by several threads (what loading does). Needs the build; no
// GPU. The file is read once before, so that it is in the cache as far as it fits.
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { openFileBytes } from "../../dist/checkpoint/mapped-file.js";
import { addressOf } from "../../dist/devices/cuda/driver/native-library.js";
import { ReadPool } from "../../dist/devices/cuda/weights/read-pool.js";
import { readFlags, refuse } from "../../tools/flags.mjs";

const cellBytes = 4 << 20;
const cellsPerThread = 2;
const runs = 3;

const { values: flags, positionals } = readFlags({
  allowPositionals: true,
  options: { threads: { type: "numbers", default: [1, 2, 4, 6], min: 1 } },
});
const [path] = positionals;
if (path === undefined) refuse("Cannot read: wanted a FILE");
const { size } =
  statSync(path, { throwIfNoEntry: false }) ?? refuse(`Cannot read ${path}: no such file`);

/** Whole cells of the file, the last one shorter. */
const ranges = Array.from({ length: Math.ceil(size / cellBytes) }, (_, index) => {
  const start = index * cellBytes;
  return { start, bytes: Math.min(cellBytes, size - start) };
});

function withFile(use) {
  const descriptor = openSync(path, "r");
  try {
    return use(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function mapped() {
  const file = openFileBytes(path);
  const target = new Uint8Array(cellBytes);
  for (const { start, bytes } of ranges) target.set(file.read(start, start + bytes));
  file.close();
}

function oneThread() {
  const target = new Uint8Array(cellBytes);
  withFile((descriptor) => {
    for (const { start, bytes } of ranges) readSync(descriptor, target, 0, bytes, start);
  });
}

/** As `FileUploads` asks, without copies to a device. */
function pooled(pool, cells) {
  withFile((descriptor) => {
    let asked = 0;
    for (let done = 0; done < ranges.length; done++) {
      for (; asked < ranges.length && asked < done + cells; asked++) {
        pool.ask(asked % cells, { descriptor, ...ranges[asked] });
      }
      if (pool.wait(done % cells) !== "read") throw new Error("the file changed");
    }
    // The next run begins with the first cell again, as threads expect.
    for (let cell = ranges.length % cells; cell > 0 && cell < cells; cell++) {
      pool.ask(cell, { descriptor, start: 0, bytes: 1 });
      pool.wait(cell);
    }
  });
}

/** GB/s, median of several runs after one that is not counted. */
function measure(read) {
  read();
  const rates = Array.from({ length: runs }, () => {
    const begun = performance.now();
    read();
    return size / 1e6 / (performance.now() - begun);
  });
  return Number(rates.sort((a, b) => a - b)[Math.floor(runs / 2)].toFixed(2));
}

const result = { bytes: size, mappedGBps: measure(mapped), oneThreadGBps: measure(oneThread) };
for (const threads of flags.threads) {
  const buffers = Array.from(
    { length: threads * cellsPerThread },
    () => new ArrayBuffer(cellBytes),
  );
  const addresses = buffers.map(addressOf);
  const pool = new ReadPool({ addresses, cellBytes, threads });
  result[`pool${threads}GBps`] = measure(() => pooled(pool, addresses.length));
  pool.close();
  await pool.ended();
}
console.log(JSON.stringify(result, null, 2));
