import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { availableIsas } from "../../../src/devices/cpu/isa.ts";
import { librariesOf } from "../../../tools/native/instruction-sets.mjs";
import { full } from "../../support/full.ts";

const compiler = process.env.CXX ?? "g++";
const canRun =
  process.platform === "linux" &&
  availableIsas().includes("avx512") &&
  spawnSync(compiler, ["--version"]).status === 0;

// Takes half a minute of compiling. Needs AVX-512, which the kernels use beside the matrix unit.
test.runIf(full && canRun)(
  "kernels of the matrix unit give the bits of the vector kernels, with its instructions emulated",
  () => {
    const folder = mkdtempSync(join(tmpdir(), "perigee-amx-"));
    try {
      const program = join(folder, "compare");
      const { amx } = librariesOf("linux-x64");
      const flags = ["-std=c++17", "-O2", "-ffp-contract=fast", "-w", "-Inative/cpu", ...amx];
      const sources = [
        ...["-include", "test/support/amx/tiles.h", "test/support/amx/compare.cpp"],
        ...["native/cpu/linear-amx-q8.cpp", "native/cpu/linear-expanded.cpp"],
      ];
      execFileSync(compiler, [...flags, ...sources, "-o", program], { stdio: "inherit" });
      const { status, stdout } = spawnSync(program, { encoding: "utf8" });
      expect({ status, stdout }).toEqual({ status: 0, stdout: "13 types compared\n" });
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
  180_000,
);
