// node test/devices/cuda/emulator/build.mjs: builds the emulated NVIDIA libraries and prints the
// folder that CUDA_HOME must name to use them. Without a C++ compiler, or on another processor,
// prints nothing.
//
//   CUDA_HOME=$(node test/devices/cuda/emulator/build.mjs) node bench/gpu/smoke.mjs
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url)).replace(/\/$/, "");
const builds = fileURLToPath(new URL("../../../../native/build/cuda-emulator/", import.meta.url));
const sources = ["driver.cpp", "fibers.cpp", "nvrtc.cpp", "cublaslt.cpp"];
const libraries = ["libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13"];

function findCompiler() {
  const names = [process.env.CXX, "g++", "c++"].filter(Boolean);
  return names.find((name) => spawnSync(name, ["--version"]).status === 0) ?? null;
}

/** The folder for CUDA_HOME; null where the emulator cannot be built. */
export function buildEmulator() {
  if (process.platform !== "linux" || process.arch !== "x64") return null;
  const compiler = findCompiler();
  if (compiler === null) return null;
  const hash = createHash("sha256").update(compiler);
  for (const name of readdirSync(folder).sort()) hash.update(readFileSync(join(folder, name)));
  const home = join(builds, hash.digest("hex").slice(0, 16));
  if (existsSync(home)) return home;
  const part = `${home}.${process.pid}.part`;
  const output = join(part, "lib64");
  mkdirSync(output, { recursive: true });
  const definitions = [`-DEMULATOR_FOLDER="${folder}"`, `-DEMULATOR_COMPILER="${compiler}"`];
  // Frame pointers and real calls: the place of an exchange is found by its return addresses.
  const frames = "-fno-omit-frame-pointer -fno-optimize-sibling-calls";
  const form = "-std=c++17 -O2 -g -fPIC -shared -fvisibility=hidden -Wall -Wextra";
  const flags = `${form} ${frames}`.split(" ");
  const inputs = sources.map((name) => join(folder, name));
  const library = join(output, "emulator.so");
  execFileSync(compiler, [...flags, ...definitions, "-o", library, ...inputs, "-ldl"]);
  for (const name of libraries) symlinkSync("emulator.so", join(output, name));
  try {
    renameSync(part, home);
  } catch (error) {
    // Another process was faster; its build is the same.
    if (!existsSync(home)) throw error;
    rmSync(part, { recursive: true, force: true });
  }
  removeOld();
  return home;
}

/** Keeps the newest builds: other processes may still use the ones before this. */
function removeOld() {
  const paths = readdirSync(builds).map((name) => join(builds, name));
  const newestFirst = paths.sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
  for (const path of newestFirst.slice(4)) rmSync(path, { recursive: true, force: true });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const home = buildEmulator();
  if (home !== null) console.log(home);
}
