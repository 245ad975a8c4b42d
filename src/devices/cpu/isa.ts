import { readFileSync } from "node:fs";
import { EngineError } from "#base";

/** Instruction sets that the native library is built for. */
export type Isa = "avx2" | "avxvnni" | "avx512" | "amx" | "neon";

/** Processor features (as Linux names them) that a library of each set uses. */
const AVX512 = ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16"];
const AVX2 = ["avx2", "fma", "f16c", "bmi2"];
const NEEDS: Readonly<Record<Isa, readonly string[]>> = {
  amx: [...AVX512, "amx_tile", "amx_bf16", "amx_int8"],
  avx512: AVX512,
  avxvnni: [...AVX2, "avx_vnni"],
  avx2: AVX2,
  neon: ["asimd", "asimdhp", "asimddp"],
};

/** Best first. */
const CANDIDATES: Readonly<Record<string, readonly Isa[]>> = {
  x64: ["amx", "avx512", "avxvnni", "avx2"],
  arm64: ["neon"],
};

/** The instruction sets of this machine's processor, best first. */
export function availableIsas(): readonly Isa[] {
  const candidates = CANDIDATES[process.arch] ?? [];
  // Every Apple processor has what the library uses.
  if (process.platform === "darwin") return candidates;
  const features = processorFeatures();
  return candidates.filter((isa) => NEEDS[isa].every((feature) => features.has(feature)));
}

/** Features of the first processor; empty where the system does not report them. */
function processorFeatures(): ReadonlySet<string> {
  let text: string;
  try {
    text = readFileSync("/proc/cpuinfo", "utf8");
  } catch {
    // Not Linux: no library is built for such a system.
    return new Set();
  }
  const line = /^(?:flags|Features)\s*:(.*)$/m.exec(text)?.[1] ?? "";
  return new Set(line.trim().split(/\s+/));
}

/** The processor's name for messages; its architecture where the system does not report a name. */
export function processorName(): string {
  try {
    const text = readFileSync("/proc/cpuinfo", "utf8");
    return /^model name\s*:\s*(.*)$/m.exec(text)?.[1] ?? process.arch;
  } catch {
    return process.platform === "darwin" ? "Apple silicon" : process.arch;
  }
}

/** `wanted`, or all, best first. Throws DEVICE_UNAVAILABLE when the processor lacks it. */
export function chooseIsas(wanted: Isa | undefined): readonly Isa[] {
  const available = availableIsas();
  const chosen = wanted === undefined ? available : available.filter((isa) => isa === wanted);
  if (chosen.length > 0) return chosen;
  const found = available.length === 0 ? "none" : available.join(", ");
  throw new EngineError(
    "DEVICE_UNAVAILABLE",
    "Cannot open the cpu device: instruction set " +
      `${wanted ?? "avx2, avxvnni, avx512, amx or neon"} wanted, this processor has ${found}; ` +
      "use the reference device",
    { param: "isa" },
  );
}
