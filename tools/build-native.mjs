// Compiles native/cpu into one shared library per instruction set:
// native/build/<platform>-<arch>/libperigee-<isa>.{so,dylib}. The device picks one at run time. On
// Linux native/transfer becomes libperigee-transfer.so, which asks the processor what it can, and
// native/relay, of the router, becomes libperigee-relay.so.
//
//   node tools/build-native.mjs [--own | --usable] [--if-missing] [--sanitize] [--isa avx2]
//                               [--portable] [--platform linux-arm64]
//
// --own leaves out instruction sets that this machine's processor would not choose, as an
// installation does. --usable builds all that it can run, as tests need them; the others are
// compiled without optimizations and not linked, which shows errors.
// --if-missing builds nothing where all libraries are there, or the package that has them prebuilt.
// --portable makes them for that package, packages/native-<platform>: for glibc 2.28 and newer,
// with the compiler's run-time libraries inside. --platform names another platform, for which
// Debian's cross-compiler is taken, or CXX.
// --sanitize checks addresses and undefined behaviour (GCC's or Clang's sanitizers) and puts the
// libraries into native/build/sanitized, where tools/fuzz-checkpoints.mjs takes them from.
// --isa builds one of the libraries.
//
// A source file is compiled again only when it, a header, the flags or the compiler changed. What
// most of them include is parsed once for all files of a library, which saves a quarter.
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
import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { librariesOf, ownLibraries, usableLibraries } from "./native/instruction-sets.mjs";
import { GLIBC_MAX, glibcOf, isNewer, oldGlibcFlags } from "./native/old-glibc.mjs";
import { BuildProgress } from "./native/progress.mjs";

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

const flag = (name) => process.argv.includes(`--${name}`);
const word = (name) => process.argv[process.argv.indexOf(`--${name}`) + 1];
const HOST = `${process.platform}-${process.arch}`;
const PLATFORM = flag("platform") ? word("platform") : HOST;
const PORTABLE = flag("portable");

const OLD_MS = 3_600_000;

/** Headers that most sources include, directly or by ours. */
const COMMON_HEADERS = [
  ..."algorithm cmath cstdint cstring functional limits type_traits utility vector".split(" "),
  ...(PLATFORM.endsWith("x64") ? ["immintrin.h"] : []),
];

// Never unloaded: when a process exits, workers of a device that was not disposed still run.
const LINK_FLAGS = ["-shared", "-pthread"];
if (PLATFORM.startsWith("linux")) LINK_FLAGS.push("-Wl,-z,nodelete");

const SANITIZE = process.argv.includes("--sanitize");
// What is wrong ends the process; frames are kept, so that a report names its callers.
const SANITIZE_FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined".split(" ");
if (SANITIZE) {
  FLAGS.push(...SANITIZE_FLAGS, "-O1", "-g1", "-fno-omit-frame-pointer");
  LINK_FLAGS.push(...SANITIZE_FLAGS);
}

/** Compilers of a platform, in the order in which they are tried. */
function compilerNames() {
  if (PLATFORM === HOST) return [process.env.CXX, "c++", "g++", "clang++"];
  const cross = { "linux-arm64": "aarch64-linux-gnu-g++", "linux-x64": "x86_64-linux-gnu-g++" };
  return [process.env.CXX, cross[PLATFORM]];
}

/** GCC 12 warns of its own immintrin.h where that is precompiled; Clang does not know the flag. */
function quietFlags({ version }) {
  return version.includes("clang") ? [] : ["-Wno-maybe-uninitialized"];
}

/** The first compiler that answers, and what it says about itself. */
function findCompiler() {
  for (const name of compilerNames()) {
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

/**
 * COMMON_HEADERS as one header. Compilers take the precompiled form beside it; a few files are
 * compiled sooner without.
 */
function commonHeader(folder, compiler, flags) {
  const header = join(folder, "common.h");
  const make = async (files) => {
    mkdirSync(folder, { recursive: true });
    writeFileSync(header, COMMON_HEADERS.map((each) => `#include <${each}>\n`).join(""));
    if (files < 5) return;
    await run(compiler.name, [...flags, "-x", "c++-header", header, "-o", `${header}.gch`]);
  };
  return { header, make, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Objects and library of one instruction set: the jobs that are not up to date. */
function plan({ isa, flags, sources, isChecked }, compiler, output) {
  const names = readdirSync(sources).sort();
  const headers = names.filter((name) => name.endsWith(".h"));
  const text = (name) => readFileSync(join(sources, name));
  const allFlags = [...FLAGS, ...quietFlags(compiler), ...flags, ...(isChecked ? ["-O0"] : [])];
  const shared = hash(compiler.version, ...allFlags, ...headers.flatMap((h) => [h, text(h)]));
  const objects = join(output, "objects", isChecked ? `${isa}-checked` : isa);
  mkdirSync(objects, { recursive: true });
  const stale = new Set(readdirSync(objects));
  const folder = join(objects, `common-${process.pid}`); // other builds may run
  const common = commonHeader(folder, compiler, allFlags);

  const compiles = [];
  const stamps = [];
  const inputs = [];
  for (const name of names.filter((each) => each.endsWith(".cpp"))) {
    const stamp = hash(shared, text(name)).slice(0, 16);
    const objectName = `${name.slice(0, -4)}-${stamp}.o`;
    const object = join(objects, objectName);
    stale.delete(objectName);
    stamps.push(name, stamp);
    inputs.push(object);
    if (existsSync(object)) continue;
    const part = `${object}.${process.pid}.part`;
    compiles.push(async () => {
      const source = ["-include", common.header, "-c", join(sources, name)];
      await run(compiler.name, [...allFlags, ...source, "-o", part]);
      renameSync(part, object);
    });
  }
  const old = [...stale].map((name) => join(objects, name));
  const stamp = hash(shared, LINK_FLAGS.join(" "), ...stamps);
  return { isa, isChecked, common, compiles, inputs, old, stamp };
}

/** Where the library of an instruction set is put. */
function libraryPath(isa, output) {
  const extension = PLATFORM.startsWith("darwin") ? "dylib" : "so";
  return join(output, `libperigee-${isa}.${extension}`);
}

/** GNU's run-time library is linked in, so that a library built here also loads elsewhere. */
function runtimeFlags(compiler) {
  const isGnu = PLATFORM.startsWith("linux") && !compiler.version.includes("clang") && !SANITIZE;
  if (!isGnu) return [];
  if (!PORTABLE) return ["-static-libstdc++", "-static-libgcc"];
  return ["-s", ...oldGlibcFlags(compiler.name, join(BUILD, "old-glibc"))];
}

/** Links under a temporary name first: a process may have the old library open. */
async function link(compiler, { isa, inputs, stamp }, { output, runtime }) {
  const library = libraryPath(isa, output);
  const stampFile = PORTABLE
    ? join(BUILD, `portable-${isa}.stamp`) // a package has no file that is not to be packed
    : `${library}.stamp`;
  const fresh = existsSync(library) && existsSync(stampFile);
  if (fresh && readFileSync(stampFile, "utf8") === stamp) return false;

  const part = `${library}.${process.pid}.part`;
  await run(compiler.name, [...LINK_FLAGS, ...inputs, ...runtime, "-o", part]);
  if (PORTABLE && PLATFORM.startsWith("linux") && isNewer(glibcOf(part), GLIBC_MAX)) {
    throw new Error(`libperigee-${isa} needs glibc ${glibcOf(part)}, newer than ${GLIBC_MAX}`);
  }
  renameSync(part, library);
  writeFileSync(stampFile, stamp);
  return true;
}

/** Removes objects of earlier sources, but not recent ones: another build may be linking them. */
function removeOld(paths) {
  for (const path of paths) {
    const isOld = Date.now() - statSync(path).mtimeMs > OLD_MS;
    if (isOld) rmSync(path, { recursive: true, force: true });
  }
}

/** Where objects, stamps and, unless they are for a package, libraries are put. */
const BUILD = join(ROOT, "native", "build", SANITIZE ? "sanitized" : PLATFORM);

/** Whether the package that has this platform's libraries prebuilt is installed. */
function isPrebuilt() {
  try {
    const { resolve } = createRequire(import.meta.url);
    const version = (path) => JSON.parse(readFileSync(path, "utf8")).version;
    const theirs = version(resolve(`@perigee/native-${PLATFORM}/package.json`));
    return theirs === version(join(ROOT, "package.json"));
  } catch {
    return false;
  }
}

/** The libraries that are asked for, as `plan` wants them. */
function wantedSets() {
  const all = flag("own") ? ownLibraries(PLATFORM) : librariesOf(PLATFORM);
  const usable = flag("usable") ? usableLibraries(PLATFORM) : all;
  return Object.entries(all)
    .filter(([isa]) => !flag("isa") || isa === word("isa"))
    .map(([isa, flags]) => ({
      ...{ isa, flags, sources: OWN_SOURCES[isa] ?? SOURCES },
      isChecked: !(isa in usable),
    }));
}

function warnOfNoCompiler() {
  const isLinux = PLATFORM.startsWith("linux");
  const install = isLinux ? "apt install g++" : "xcode-select --install";
  const bar = "*".repeat(78);
  console.warn(
    `${bar}\nperigee: no C++ compiler found, so only the slow reference device will run: some 40 ` +
      `times slower.\nInstall one (${install}) and run: npm rebuild perigee, in a checkout npm ` +
      `run build\n${bar}`,
  );
}

/** The same with the objects of another plan linked in; null: with none. */
function withObjects(planned, extra) {
  if (extra === null) return planned;
  const inputs = [...planned.inputs, ...extra.inputs];
  return { ...planned, inputs, stamp: hash(planned.stamp, extra.stamp, GLIBC_MAX) };
}

/** Runs what is not up to date of plans. */
async function compile(plans) {
  const stale = plans.filter(({ compiles }) => compiles.length > 0);
  const jobs = stale.flatMap(({ compiles }) => compiles);
  const names = plans.map(({ isa }) => isa).join(", ");
  const progress = new BuildProgress(`compiling ${names} for ${PLATFORM}`, jobs.length);
  try {
    await runAll(
      stale.map(
        ({ common, compiles }) =>
          () =>
            common.make(compiles.length),
      ),
    );
    await runAll(jobs.map((job) => () => job().then(() => progress.advance())));
  } finally {
    for (const { common } of stale) common.remove();
  }
}

async function main() {
  const sets = wantedSets();
  if (sets.length === 0) {
    console.warn(`perigee: no native kernels for ${PLATFORM}; the reference device runs here`);
    return;
  }
  const output = PORTABLE ? join(ROOT, "packages", `native-${PLATFORM}`) : BUILD;
  const complete = sets.every(({ isa }) => existsSync(libraryPath(isa, output)));
  if (flag("if-missing") && (complete || isPrebuilt())) return;
  const compiler = findCompiler();
  if (compiler === null) {
    warnOfNoCompiler();
    process.exitCode = PORTABLE ? 1 : 0;
    return;
  }
  mkdirSync(output, { recursive: true });
  // What an old glibc lacks goes into each.
  const isOld = PORTABLE && PLATFORM.startsWith("linux");
  const portable = { isa: "portable", flags: [], sources: join(ROOT, "native", "portable") };
  const extra = isOld ? plan(portable, compiler, BUILD) : null;
  const plans = sets.map((set) => withObjects(plan(set, compiler, BUILD), extra));
  await compile(extra === null ? plans : [extra, ...plans]);
  const runtime = runtimeFlags(compiler);
  for (const each of plans) {
    const isMade = !each.isChecked && (await link(compiler, each, { output, runtime }));
    if (isMade) console.log(`perigee: built libperigee-${each.isa}`);
    removeOld(each.old);
  }
}

main().catch((error) => {
  console.error(`perigee: cannot build the native library: ${error.message}`);
  process.exit(1);
});
