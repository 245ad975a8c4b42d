/** What the processor can do at best: memory read, products in registers. */
import { fileURLToPath } from "node:url";
import koffi from "koffi";

/** Above what the last cache of most processors holds, and below what memory has room for. */
const READ_BYTES = { least: 2 ** 28, most: 2 ** 31 };
const READ_TASKS = 64;
const DOT_STEPS = 3_000_000;
const SUMS = 12;
const REPS = 5;
const FORMATS = ["f32", "bf16", "i8"];
/** Columns of a 32-bit word. */
const COLUMNS = { f32: 1, bf16: 2, i8: 4 };

/**
 * `readBytes`: how much is read of memory, as much as is read of what is compared with it: some
 * processors have caches of 256 MiB and more.
 */
export function measureLimits(isa, threads, readBytes = 0) {
  const { least, most } = READ_BYTES;
  const bytes = Math.min(most, Math.max(least, Math.floor(readBytes / 4096) * 4096));
  const folder = `../../native/build/${process.platform}-${process.arch}`;
  const extension = process.platform === "darwin" ? "dylib" : "so";
  const path = fileURLToPath(new URL(`${folder}/libperigee-${isa}.${extension}`, import.meta.url));
  const library = koffi.load(path);
  const pool = library.func("void *perigee_pool_create(int32_t, int32_t)")(threads, 0);
  const allocate = library.func("void *perigee_allocate(int64_t bytes)");
  const release = library.func("void perigee_release(void *memory, int64_t bytes)");
  const read = library.func("void perigee_limit_read(void *params)");
  const dot = library.func("void perigee_limit_dot(void *params)");
  const lanes = library.func("int32_t perigee_limit_lanes()")();

  const memory = allocate(bytes);
  const out = allocate(4096);
  touch(memory, bytes);
  const readSeconds = bestSeconds(() => read(params([pool, memory, bytes / 4, out, READ_TASKS])));
  const gmacs = FORMATS.map((format, code) => {
    const seconds = bestSeconds(() => dot(params([pool, code, DOT_STEPS, out])));
    return [format, (DOT_STEPS * SUMS * lanes * COLUMNS[format] * threads) / seconds / 1e9];
  });
  release(memory, bytes);
  release(out, 4096);
  library.func("void perigee_pool_destroy(void *pool)")(pool);
  return { readGBs: bytes / readSeconds / 1e9, gmacs: Object.fromEntries(gmacs) };
}

/** Pages that were never written all are the one page of zeros. */
function touch(memory, bytes) {
  new Uint8Array(koffi.view(memory, bytes)).fill(1);
}

/** A struct of 8-byte fields (src/devices/cpu/params.ts). */
function params(fields) {
  const buffer = new ArrayBuffer(fields.length * 8);
  fields.forEach((field, i) => {
    const slot = typeof field === "bigint" ? BigUint64Array : Float64Array;
    new slot(buffer, i * 8, 1)[0] = field;
  });
  return buffer;
}

/** The fastest of some runs: a limit is what can be reached, not what is typical. */
function bestSeconds(action) {
  const runs = Array.from({ length: REPS }, () => {
    const start = performance.now();
    action();
    return (performance.now() - start) / 1e3;
  });
  return Math.min(...runs);
}
