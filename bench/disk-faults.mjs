/**
 * node bench/disk-faults.mjs [--rounds 20] [--kib 256] [--dir DIR] [--full DIR] [--out FILE]
 *
 * What a killed process, a full disk and a folder of somebody else's do to the disk tier, with real
 * processes and a real file system. A child writes blocks until it is killed with SIGKILL; after
 * each kill the store is opened again and every block that it says it has is read and compared.
 * --full names a small file system to run full, e.g. one made by
 * `mount -t tmpfs -o size=8m tmpfs DIR`. Runs dist; prints JSON; exit code 1 for a wrong byte.
 */
import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags } from "../tools/flags.mjs";
import { blockFile, fillPayload, indexOf, openStore } from "./disk-blocks.mjs";
import { printResult } from "./machine.mjs";

const { values: flags } = readFlags({
  options: {
    rounds: { type: "number", default: 20, min: 1 },
    kib: { type: "number", default: 256 },
    dir: { type: "string", default: tmpdir() },
    full: { type: "string" },
    child: { type: "string" },
    from: { type: "number", default: 0 },
    out: { type: "string" },
  },
});
const bytes = flags.kib * 1024;
/** Anybody but root, for whom no folder is closed. */
const NOBODY = 65_534;
const BUFFERS = 8;

const warnings = [];
const warn = (line) => warnings.push(line);

/** Writes blocks as fast as it can, until it is killed or `last` is reached. */
async function writeBlocks(store, from, last = Number.POSITIVE_INFINITY) {
  let next = from;
  let written = 0;
  const runner = async (buffer) => {
    while (next < last) {
      const index = next++;
      if (await store.write(blockFile(index), fillPayload(buffer, index))) written++;
      if (flags.child !== undefined && index % 16 === 0) process.stdout.write(`${index}\n`);
    }
  };
  await Promise.all(Array.from({ length: BUFFERS }, () => runner(new Uint8Array(bytes))));
  return written;
}

/** Reads all that a store says it has; counts blocks whose bytes are not theirs. */
async function readAll({ store, survivors }) {
  const counts = { survivors: survivors.length, read: 0, wrong: 0, refused: 0 };
  const [wanted, into] = [new Uint8Array(bytes), new Uint8Array(bytes)];
  for (const { file } of survivors) {
    if ((await store.read(file, into)) !== "read") {
      counts.refused++;
      continue;
    }
    counts.read++;
    fillPayload(wanted, indexOf(file));
    if (Buffer.compare(wanted, into) !== 0) counts.wrong++;
  }
  return counts;
}

function temporariesIn(dir) {
  return readdirSync(dir, { recursive: true }).filter((name) => name.endsWith(".tmp")).length;
}

/** Starts a child that writes from `from` on, and kills it after `ms` of writing. */
async function writeUntilKilled(dir, from, ms) {
  const self = fileURLToPath(import.meta.url);
  const args = [self, "--child", dir, "--from", String(from), "--kib", flags.kib];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.once("exit", (_, signal) => resolve(signal)));
  let last = from;
  child.stdout.on("data", (text) => {
    last = Math.max(last, ...String(text).trim().split("\n").map(Number));
  });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  await new Promise((resolve) => setTimeout(resolve, ms));
  child.kill("SIGKILL");
  return { signal: await exited, last };
}

async function killRounds(rounds) {
  const dir = mkdtempSync(join(flags.dir, "perigee-faults-"));
  const totals = { rounds, killed: 0, temporaries: 0, survivors: 0, read: 0, wrong: 0, refused: 0 };
  let from = 0;
  for (let round = 0; round < rounds; round++) {
    const { signal, last } = await writeUntilKilled(dir, from, 5 + ((round * 37) % 100));
    if (signal === "SIGKILL") totals.killed++;
    from = last + 1000;
    totals.temporaries += temporariesIn(dir);
    const opened = await openStore(dir, bytes, warn, 256);
    const counts = await readAll(opened);
    for (const name of Object.keys(counts)) totals[name] += counts[name];
    await opened.store.close();
  }
  totals.temporariesLeft = temporariesIn(dir);
  rmSync(dir, { recursive: true });
  return totals;
}

async function fullDisk(dir) {
  const { store } = await openStore(dir, bytes, warn);
  const tried = 400;
  const written = await writeBlocks(store, 0, tried);
  const { skippedWrites, writes } = store.stats();
  await store.close();
  const counts = await readAll(await openStore(dir, bytes, warn));
  return { tried, written, failures: writes.failures, skippedWrites, ...counts };
}

/** A child under another user finds a folder that is closed to it. */
async function closedFolder() {
  if (process.getuid?.() !== 0) return null;
  const dir = mkdtempSync(join(flags.dir, "perigee-closed-"));
  chmodSync(dir, 0o700);
  const args = [fileURLToPath(import.meta.url), "--child", dir, "--kib", flags.kib];
  const child = spawn(process.execPath, args, { uid: NOBODY, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (text) => {
    said += text;
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  rmSync(dir, { recursive: true });
  return { exitCode: code, said: said.trim() };
}

if (flags.child !== undefined) {
  const opened = await openStore(flags.child, bytes, console.error);
  if (opened !== null) await writeBlocks(opened.store, flags.from);
} else {
  const killed = await killRounds(flags.rounds);
  const full = flags.full === undefined ? null : await fullDisk(flags.full);
  const closed = await closedFolder();
  printResult({ killed, full, closed, warnings }, flags.out);
  if (killed.wrong + (full?.wrong ?? 0) > 0) process.exitCode = 1;
}
