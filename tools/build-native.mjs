// Compiles native/cpu into one shared library per instruction set:
// native/build/<platform>-<arch>/libperigee-<isa>.{so,dylib}. The device picks one at run time. On
// Linux native/transfer becomes libperigee-transfer.so, which asks the processor what it can, and
// native/relay, of the router, becomes libperigee-relay.so.
//
//   node tools/build-native.mjs [--force] [--if-missing] [--sanitize] [--isa avx2]
//
// --sanitize checks addresses and undefined behaviour (GCC's or Clang's sanitizers) and puts the
// libraries into native/build/sanitized, where tools/fuzz-checkpoints.mjs takes them from.
// --isa builds one of the libraries.
//
// A source file is compiled again only when it, a header, the flags or the compiler changed.
// Without a compiler nothing is built and the exit code is 0: the reference device still runs.
import { execFile, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SOURCES = join(ROOT, "native", "cpu");
/** Libraries that have folders of their own. */
const OWN_SOURCES = {
  transfer: join(ROOT, "native", "transfer"),
  relay: join(ROOT, "native", "relay"),
};

// -ffp-contract=fast: a product that is added becomes one rounded operation everywhere.
const FLAGS = [
  ..."-std=c++17 -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fPIC -pthread".split(
    " ",
  ),
  ..."-fvisibility=hidden -Wall -Wextra -Wno-psabi".split(" "),
];

const OLD_MS = 3_600_000;

// Never unloaded: when a process exits, workers of a device that was not disposed still run.
const LINK_FLAGS = ["-shared", "-pthread"];
if (process.platform === "linux") LINK_FLAGS.push("-Wl,-z,nodelete");

const AVX2 = ["-mavx2", "-mfma", "-mf16c", "-mbmi2"];
const AVX512 = ["f", "bw", "dq", "vl", "vnni", "bf16"].map((part) => `-mavx512${part}`);
const WIDE = ["-mprefer-vector-width=512"];
const AMX = ["tile", "bf16", "int8"].map((part) => `-mamx-${part}`);

const SANITIZE = process.argv.includes("--sanitize");
// What is wrong ends the process; frames are kept, so that a report names its callers.
const SANITIZE_FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined".split(" ");
if (SANITIZE) {
  FLAGS.push(...SANITIZE_FLAGS, "-O1", "-g1", "-fno-omit-frame-pointer");
  LINK_FLAGS.push(...SANITIZE_FLAGS);
}

/** Every library of this machine, and its flags. */
function libraries() {
  const transfer = process.arch === "arm64" ? ["-march=armv8-a+crc"] : [];
  if (process.platform !== "linux") return instructionSets();
  return { ...instructionSets(), transfer, relay: [] };
}

/** Instruction sets of this machine's architecture, and the flags that unlock them. */
function instructionSets() {
  const key = `${process.platform}-${process.arch}`;
  switch (key) {
    case "linux-x64":
      return {
        avx2: AVX2,
        avx512: [...AVX2, ...AVX512, ...WIDE],
        // Its permission is asked of Linux (native/cpu/permission.cpp).
        amx: [...AVX2, ...AVX512, ...WIDE, ...AMX],
      };
    case "linux-arm64":
      return { neon: ["-march=armv8.2-a+dotprod+fp16"] };
    case "darwin-arm64":
      return { neon: ["-mcpu=apple-m1"] };
    default:
      return {};
  }
}

/** The first compiler that answers, and what it says about itself. */
function findCompiler() {
  for (const name of [process.env.CXX, "c++", "g++", "clang++"]) {
    if (!name) continue;
    const asked = spawnSync(name, ["--version"], { encoding: "utf8" });
    if (asked.status === 0) return { name, version: asked.stdout.split("\n")[0] };
  }
  return null;
}

function run(command, args) {
  return new Promise((resolve, reject) => {
    execFile(command, args, { cwd: ROOT, maxBuffer: 2 ** 24 }, (error, stdout, stderr) => {
      process.stderr.write(stdout + stderr);
      if (error) reject(new Error(`${command} failed (${error.code ?? error.signal})`));
      else resolve();
    });
  });
}

/** Runs `jobs` with one at a time per processor. Stops at the first failure. */
async function runAll(jobs) {
  const queue = [...jobs];
  const lane = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) await job();
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
}

function hash(...parts) {
  const sum = createHash("sha256");
  for (const part of parts) sum.update(part).update("\0");
  return sum.digest("hex");
}

/** Objects and library of one instruction set: the jobs that are not up to date. */
function plan(isa, flags, compiler, output) {
  const sources = OWN_SOURCES[isa] ?? SOURCES;
  const names = readdirSync(sources).sort();
  const headers = names.filter((name) => name.endsWith(".h"));
  const text = (name) => readFileSync(join(sources, name));
  const common = hash(
    compiler.version,
    ...FLAGS,
    ...flags,
    ...headers.flatMap((h) => [h, text(h)]),
  );
  const objects = join(output, "objects", isa);
  mkdirSync(objects, { recursive: true });
  const stale = new Set(readdirSync(objects));

  const compiles = [];
  const stamps = [];
  const inputs = [];
  for (const name of names.filter((each) => each.endsWith(".cpp"))) {
    const stamp = hash(common, text(name)).slice(0, 16);
    const objectName = `${name.slice(0, -4)}-${stamp}.o`;
    const object = join(objects, objectName);
    stale.delete(objectName);
    stamps.push(name, stamp);
    inputs.push(object);
    if (existsSync(object)) continue;
    const part = `${object}.${process.pid}.part`;
    compiles.push(async () => {
      await run(compiler.name, [...FLAGS, ...flags, "-c", join(sources, name), "-o", part]);
      renameSync(part, object);
    });
  }
  const old = [...stale].map((name) => join(objects, name));
  return { isa, compiles, inputs, old, stamp: hash(common, LINK_FLAGS.join(" "), ...stamps) };
}

/** Where the library of an instruction set is put. */
function libraryPath(isa, output) {
  const extension = process.platform === "darwin" ? "dylib" : "so";
  return join(output, `libperigee-${isa}.${extension}`);
}

/** Links under a temporary name first: a process may have the old library open. */
async function link(compiler, { isa, inputs, stamp }, output) {
  const library = libraryPath(isa, output);
  const stampFile = `${library}.stamp`;
  const fresh = existsSync(library) && existsSync(stampFile);
  if (fresh && readFileSync(stampFile, "utf8") === stamp) return false;

  // GNU's run-time library is linked in, so that a library built here also loads elsewhere.
  const gnu = process.platform === "linux" && !compiler.version.includes("clang") && !SANITIZE;
  const runtime = gnu ? ["-static-libstdc++", "-static-libgcc"] : [];
  const part = `${library}.${process.pid}.part`;
  await run(compiler.name, [...LINK_FLAGS, ...runtime, ...inputs, "-o", part]);
  renameSync(part, library);
  writeFileSync(stampFile, stamp);
  return true;
}

/** Removes objects of earlier sources, but not recent ones: another build may be linking them. */
function removeOld(paths) {
  for (const path of paths) {
    if (Date.now() - statSync(path).mtimeMs > OLD_MS) rmSync(path, { force: true });
  }
}

async function main() {
  const only = process.argv.indexOf("--isa") + 1;
  const sets = Object.entries(libraries()).filter(
    ([isa]) => only === 0 || isa === process.argv[only],
  );
  if (sets.length === 0) {
    console.warn(
      `perigee: no native kernels for ${process.platform}-${process.arch}; ` +
        "the reference device runs here",
    );
    return;
  }
  const folder = SANITIZE ? "sanitized" : `${process.platform}-${process.arch}`;
  const output = join(ROOT, "native", "build", folder);
  // An installed package carries the libraries of the platform that it was packed on.
  const complete = sets.every(([isa]) => existsSync(libraryPath(isa, output)));
  if (process.argv.includes("--if-missing") && complete) return;
  const compiler = findCompiler();
  if (compiler === null) {
    const install = process.platform === "darwin" ? "xcode-select --install" : "apt install g++";
    console.warn(
      `perigee: no C++ compiler found, so only the slow reference device will run. ` +
        `Install one (${install}) and run: npm run build`,
    );
    return;
  }
  const plans = sets.map(([isa, flags]) => plan(isa, flags, compiler, output));
  await runAll(plans.flatMap((each) => each.compiles));
  for (const each of plans) {
    if (await link(compiler, each, output)) console.log(`perigee: built libperigee-${each.isa}`);
    removeOld(each.old);
  }
}

main().catch((error) => {
  console.error(`perigee: cannot build the native library: ${error.message}`);
  process.exit(1);
});
