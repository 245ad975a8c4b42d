// node bench/gpu/contracts.mjs --build          (where TypeScript is: compiles test/contracts)
// node bench/gpu/contracts.mjs [--only REGEX]   (where the GPU is: plain node, no test runner)
//
// The contracts of test/contracts on the cuda device: every op beside its definition, and every
// recorded model in fp32 beside what Hugging Face computed. Prints failures, a line per suite, and
// exits 1 if anything failed.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { CudaDevice } from "../../dist/devices/cuda/cuda-device.js";
import { readFlags } from "../../tools/flags.mjs";
import { openBuilt } from "./contracts/open-built.mjs";
import { describe, runSuites } from "./contracts/stand-in.mjs";
import { openOrGiveUp } from "./gpu-bench.mjs";

const { values: flags } = readFlags({
  options: {
    build: { type: "boolean" },
    only: { type: "string" },
    verbose: { type: "boolean" },
  },
});

if (flags.build) {
  const project = fileURLToPath(new URL("contracts/tsconfig.json", import.meta.url));
  process.exit(spawnSync("npx", ["tsc", "-p", project], { stdio: "inherit" }).status ?? 1);
}

const contracts = openBuilt();
const { deviceOpsContract } = await import(new URL("device-ops.js", contracts));
const { parityContract } = await import(new URL("parity.js", contracts));
const open = () => CudaDevice.open({ settings: cudaFromEnvironment(), warn: console.warn });

const device = await openOrGiveUp(open);
console.log(device.description);
describe("ops", () => deviceOpsContract("cuda", () => device));
describe("models", () => parityContract("cuda", open, { logits: 1e-3, hidden: 1e-3 }));
const only = flags.only === undefined ? null : new RegExp(flags.only);
const failed = await runSuites({ only, verbose: flags.verbose === true });
process.exit(failed === 0 ? 0 : 1);
