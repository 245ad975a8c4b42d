// Compiles native/cuda for every architecture that the CUDA device may meet.
//
//   node tools/check-cuda.mjs [--force] [--verbose] [--arch sm_90a,sm_100] [file …]
//
// With nvcc where there is one, else with NVRTC through the build in dist/; without either nothing
// is checked, it says so, and the exit code is 0. What compiled before is not compiled again until
// it, a header, the flags or the compiler changes. --verbose prints what each kernel takes.
import { execFile, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags } from "./flags.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SOURCES = join(ROOT, "native", "cuda");
const STAMPS = join(ROOT, "native", "build", "cuda-check");

/** Ampere, its consumer cards, Ada, Hopper with its own instructions, Blackwell. */
const ARCHITECTURES = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100"];

const { values: flags, positionals } = readFlags({
  allowPositionals: true,
  options: {
    force: { type: "boolean" },
    verbose: { type: "boolean" },
    arch: { type: "string" },
  },
});

/** `{ version, compile(file, architecture) → report }`: a compiler, or null. */
async function findCompiler() {
  return findNvcc() ?? (await findNvrtc());
}

function findNvcc() {
  const homes = [process.env.CUDA_HOME, process.env.CUDA_PATH, "/usr/local/cuda"];
  const names = ["nvcc", ...homes.filter(Boolean).map((home) => join(home, "bin", "nvcc"))];
  for (const name of names) {
    const asked = spawnSync(name, ["--version"], { encoding: "utf8" });
    if (asked.status !== 0) continue;
    const version = /release ([\d.]+)/.exec(asked.stdout)?.[1] ?? "?";
    const listed = spawnSync(name, ["--list-gpu-code"], { encoding: "utf8" }).stdout;
    return {
      version: `nvcc ${version}`,
      // It lists no `a` targets; they are as old as their number.
      knows: (architecture) => listed.includes(architecture.replace(/a$/, "")),
      compile: (file, architecture) => nvcc(name, file, architecture),
    };
  }
  return null;
}

function nvcc(name, file, architecture) {
  const target = `arch=compute_${architecture.slice(3)},code=${architecture}`;
  const flags = [
    "-std=c++17",
    "-cubin",
    `-gencode=${target}`,
    "-Xptxas=-v",
    "-Werror=all-warnings",
  ];
  return new Promise((resolve, reject) => {
    const args = [...flags, "-o", "/dev/null", join(SOURCES, `${file}.cu`)];
    execFile(name, args, { maxBuffer: 2 ** 24 }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${stdout}${stderr}`.trim()));
      else resolve(resources(stderr));
    });
  });
}

/** `norm: 32 registers, 128 bytes shared` for each kernel in ptxas's words. */
function resources(log) {
  const found = [];
  for (const part of log.split("Compiling entry function '").slice(1)) {
    const name = part.slice(0, part.indexOf("'"));
    const registers = /Used (\d+) registers/.exec(part)?.[1] ?? "?";
    const shared = /(\d+) bytes smem/.exec(part)?.[1] ?? "0";
    const spilled = Number(/(\d+) bytes spill stores/.exec(part)?.[1] ?? 0);
    const stack = Number(/(\d+) bytes stack frame/.exec(part)?.[1] ?? 0);
    const more = [
      ...(spilled > 0 ? [`SPILLS ${spilled} bytes`] : []),
      ...(stack > 0 ? [`stack ${stack} bytes`] : []),
    ];
    found.push([name, `${registers} registers`, `${shared} bytes shared`, ...more].join(", "));
  }
  return found;
}

/** The device's own compiler, from the build. */
async function findNvrtc() {
  if (!existsSync(join(ROOT, "dist"))) return null;
  const { Nvrtc } = await import("../dist/devices/cuda/kernels/nvrtc.js");
  const { readKernel } = await import("../dist/devices/cuda/kernels/kernel-sources.js");
  const { compileOptions } = await import("../dist/devices/cuda/kernels/kernels.js");
  const { cudaFromEnvironment } = await import("../dist/cli/cuda-environment.js");
  let nvrtc;
  try {
    // No driver is asked: any version will do.
    nvrtc = Nvrtc.open(cudaFromEnvironment(), Number.MAX_SAFE_INTEGER);
  } catch {
    return null; // None on this machine, which is what the caller says then.
  }
  return {
    version: `NVRTC ${nvrtc.version}`,
    knows: (architecture) => nvrtc.supports(architecture),
    compile: async (file, architecture) => {
      const cubin = nvrtc.compile(readKernel(file), compileOptions(architecture));
      return [`${cubin.length} bytes of machine code`];
    },
  };
}

/** What a file's machine code depends on. */
function stampOf(file, architecture, compiler) {
  const hash = createHash("sha256").update(`${compiler.version} ${architecture}\0`);
  const headers = readdirSync(SOURCES).filter((name) => name.endsWith(".h"));
  for (const name of [`${file}.cu`, ...headers.sort()])
    hash.update(readFileSync(join(SOURCES, name)));
  return hash.digest("hex");
}

async function check(compiler, file, architecture) {
  const stampPath = join(STAMPS, `${file}-${architecture}.json`);
  const stamp = stampOf(file, architecture, compiler);
  if (!flags.force && existsSync(stampPath)) {
    const known = JSON.parse(readFileSync(stampPath, "utf8"));
    if (known.stamp === stamp) return known.report;
  }
  const report = await compiler.compile(file, architecture);
  writeFileSync(stampPath, JSON.stringify({ stamp, report }));
  return report;
}

async function main() {
  const compiler = await findCompiler();
  if (compiler === null) {
    console.log("check:cuda: skipped, neither nvcc nor a build with NVRTC is on this machine");
    return 0;
  }
  mkdirSync(STAMPS, { recursive: true });
  const all = readdirSync(SOURCES).filter((name) => name.endsWith(".cu"));
  const files = positionals.length > 0 ? positionals : all.map((name) => name.slice(0, -3));
  const wanted = flags.arch?.split(",") ?? ARCHITECTURES;
  const architectures = wanted.filter((each) => compiler.knows(each));
  const unknown = wanted.filter((each) => !compiler.knows(each));
  const queue = files.flatMap((file) => architectures.map((each) => [file, each]));
  const [total, failures] = [queue.length, []];
  const lane = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) {
      const [file, architecture] = job;
      try {
        const report = await check(compiler, file, architecture);
        const spilling = report.filter((line) => line.includes("SPILLS"));
        for (const line of flags.verbose ? report : spilling) {
          console.log(`${file}.cu ${architecture}: ${line}`);
        }
      } catch (error) {
        failures.push(`${file}.cu for ${architecture}`);
        console.error(`check:cuda: ${file}.cu does not compile for ${architecture}`);
        console.error(error.message);
      }
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
  if (unknown.length > 0) console.log(`check:cuda: ${compiler.version} knows no ${unknown}`);
  const targets = `${files.length} files for ${architectures.join(", ")}`;
  const good = total - failures.length;
  console.log(`check:cuda: ${compiler.version}, ${targets}: ${good} of ${total} compile`);
  return failures.length === 0 ? 0 : 1;
}

process.exit(await main());
