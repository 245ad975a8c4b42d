/**
 * Mutated checkpoints in child processes: a crash, a child that does not answer, an answer that is
 * no clear error, and memory beyond a bound are failures; each names its mutant, which the same
 * seed makes again (--from N --checkpoints 1).
 */
import { spawn } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { buildSanitized, SANITIZED_ISA, sanitizedEnvironment } from "./sanitizers.mjs";
import { writeSeeds } from "./seeds.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const CHILD = fileURLToPath(new URL("checkpoint-child.mjs", import.meta.url));
/** Mutants of one child: what a library keeps for each must not add up without end. */
const MUTANTS_PER_CHILD = 1000;
const STUCK_MS = 60_000;
const LOOK_MS = 1000;
const SHOWN_LINES = 40;
const MEGABYTE = 2 ** 20;

/**
 * Runs `count` mutants from number `from` on, in `jobs` processes at a time. Returns true where
 * none failed. What it prints at its end is the whole result; an interrupt brings it early, for
 * those that were tried.
 */
export async function fuzzCheckpoints({ count, from, seed, sanitize, jobs }) {
  const started = performance.now();
  const scratch = mkdtempSync(join(tmpdir(), "perigee-fuzz-"));
  try {
    const roots = sanitize ? sanitizedRoots(scratch) : [ROOT];
    const seeds = join(scratch, "seeds");
    await writeSeeds(seeds, await modulesOf(ROOT));
    const total = { accepted: 0, ran: 0, failures: 0, peakBytes: 0, refused: new Map() };
    const plan = { roots, seeds, seed, sanitize };
    const chunks = [];
    for (let first = from; first < from + count; first += MUTANTS_PER_CHILD) {
      chunks.push([first, Math.min(from + count, first + MUTANTS_PER_CHILD)]);
    }
    let done = 0;
    process.once("SIGINT", () => {
      chunks.length = 0; // What runs is finished, and counted.
    });
    const lane = async (_, number) => {
      const own = join(scratch, `lane-${number}`);
      mkdirSync(own);
      for (let chunk = chunks.shift(); chunk !== undefined; chunk = chunks.shift()) {
        const [first, end] = chunk;
        for (let next = first; next < end; ) {
          next = await runChild({ ...plan, scratch: own }, next, end, total);
        }
        done += end - first;
        process.stderr.write(`fuzz: ${done} of ${count}, ${total.failures} failures\n`);
      }
    };
    await Promise.all(Array.from({ length: jobs }, lane));
    print({ done, seed, sanitize }, total, (performance.now() - started) / 1000);
    return total.failures === 0;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/**
 * The package with a native library that checks addresses, twice: as it is, and with files that
 * are read into memory instead of mapped, whose ends the library knows to the byte.
 */
function sanitizedRoots(scratch) {
  const library = buildSanitized(ROOT);
  return ["mapped", "read"].map((name) => {
    const root = join(scratch, name);
    const native = join(root, "native", "build", `${process.platform}-${process.arch}`);
    mkdirSync(native, { recursive: true });
    cpSync(join(ROOT, "dist"), join(root, "dist"), { recursive: true });
    cpSync(join(ROOT, "package.json"), join(root, "package.json"));
    cpSync(library.path, join(native, library.name));
    symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
    const noMap = "export const systemMemoryMap = () => null;\n";
    if (name === "read") writeFileSync(join(root, "dist/checkpoint/system-memory-map.js"), noMap);
    return root;
  });
}

async function modulesOf(root) {
  const load = (name) => import(resolve(root, "dist", name, "index.js"));
  const names = ["models", "devices", "checkpoint"];
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await load(name)])));
}

/** Runs mutants from `first` up to `end` in a child. Returns the first that was not tried. */
async function runChild(plan, first, end, total) {
  const { roots, seeds, scratch, seed, sanitize } = plan;
  const root = roots[Math.floor(first / MUTANTS_PER_CHILD) % roots.length];
  const isa = sanitize ? SANITIZED_ISA : "";
  const words = [CHILD, root, isa, seeds, scratch, seed, first, end - first].map(String);
  const child = spawn(process.execPath, ["--max-old-space-size=768", ...words], {
    cwd: ROOT,
    env: { ...process.env, ...(sanitize ? sanitizedEnvironment() : {}) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const errors = [];
  createInterface({ input: child.stderr }).on("line", (line) => {
    errors.push(line);
    if (errors.length > SHOWN_LINES) errors.splice(SHOWN_LINES / 2, 1);
  });
  let isDone = false;
  createInterface({ input: child.stdout }).on("line", (line) => {
    const message = JSON.parse(line);
    if (message.done === true) {
      isDone = true;
      add(total, message);
    } else fail(total, message);
  });
  const atFile = join(scratch, "at");
  const stop = watch(child, atFile);
  const [code, signal] = await new Promise((done) => {
    child.on("close", (...how) => done(how));
  });
  stop();
  if (isDone) return end;
  const mutant = Number(readText(atFile).trim());
  const problem = `ended its process (${signal ?? code}):\n${errors.join("\n")}`;
  fail(total, { mutant, problem });
  return Number.isInteger(mutant) && mutant >= first ? mutant + 1 : end;
}

/** Ends a child that works on one mutant for too long. */
function watch(child, atFile) {
  let last = "";
  let sinceMs = performance.now();
  const look = setInterval(() => {
    const now = readText(atFile);
    if (now !== last) {
      last = now;
      sinceMs = performance.now();
    } else if (performance.now() - sinceMs > STUCK_MS) child.kill("SIGKILL");
  }, LOOK_MS);
  return () => clearInterval(look);
}

function readText(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return ""; // The child has not begun yet.
  }
}

function add(total, { accepted, ran, refused, peakBytes }) {
  total.accepted += accepted;
  total.ran += ran;
  total.peakBytes = Math.max(total.peakBytes, peakBytes);
  for (const [code, count] of Object.entries(refused)) {
    total.refused.set(code, (total.refused.get(code) ?? 0) + count);
  }
}

function fail(total, { mutant, what = "", problem }) {
  total.failures += 1;
  process.stdout.write(`mutant ${mutant} ${what}: ${problem}\n`);
}

function print({ done, seed, sanitize }, { accepted, ran, failures, peakBytes, refused }, seconds) {
  const codes = [...refused].map(([code, times]) => `${code} ${times}`).join(", ");
  const peak = Math.round(peakBytes / MEGABYTE);
  process.stdout.write(
    `checkpoints ${done}, seed ${seed}, sanitizers ${sanitize ? "on" : "off"}: ` +
      `accepted ${accepted}, of these run ${ran}; refused: ${codes || "none"}; ` +
      `${seconds.toFixed(0)} s, peak ${peak} MiB, failures ${failures}\n`,
  );
}
