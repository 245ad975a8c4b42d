// Native libraries of each platform, the flags that unlock their instructions, and the sets that
// this machine's processor would choose.
import { readFileSync } from "node:fs";

const AVX2 = ["-mavx2", "-mfma", "-mf16c", "-mbmi2"];
const AVX512 = ["f", "bw", "dq", "vl", "vnni", "bf16"].map((part) => `-mavx512${part}`);
const WIDE = ["-mprefer-vector-width=512"];
const AMX = ["tile", "bf16", "int8"].map((part) => `-mamx-${part}`);

/** Flags by instruction set; best last. */
const SETS = {
  "linux-x64": {
    avx2: AVX2,
    // Processors without AVX-512 from 2021 on: products of bytes in one instruction.
    avxvnni: [...AVX2, "-mavxvnni"],
    avx512: [...AVX2, ...AVX512, ...WIDE],
    // Its permission is asked of Linux (native/cpu/permission.cpp).
    amx: [...AVX2, ...AVX512, ...WIDE, ...AMX],
  },
  "linux-arm64": { neon: ["-march=armv8.2-a+dotprod+fp16"] },
  "darwin-arm64": { neon: ["-mcpu=apple-m1"] },
};

/** Instruction sets of a platform, and the flags that unlock them. */
function instructionSets(platform) {
  return SETS[platform] ?? {};
}

/** Every library of a platform, and its flags. */
export function librariesOf(platform) {
  const transfer = platform.endsWith("arm64") ? ["-march=armv8-a+crc"] : [];
  if (!platform.startsWith("linux")) return instructionSets(platform);
  return { ...instructionSets(platform), transfer, relay: [] };
}

/** Features of the processor, as Linux names them. */
function processorFeatures() {
  try {
    const text = readFileSync("/proc/cpuinfo", "utf8");
    return new Set((/^(?:flags|Features)\s*:(.*)$/m.exec(text)?.[1] ?? "").trim().split(/\s+/));
  } catch {
    return new Set();
  }
}

const AVX2_FEATURES = ["avx2", "fma", "f16c", "bmi2"];
const AVX512_FEATURES = "f bw dq vl _vnni _bf16".split(" ").map((part) => `avx512${part}`);
/** Features of the processor that an instruction set of `linux-x64` needs, as Linux names them. */
const NEEDS = {
  avx2: AVX2_FEATURES,
  avxvnni: [...AVX2_FEATURES, "avx_vnni"],
  avx512: AVX512_FEATURES,
  amx: [...AVX512_FEATURES, "amx_tile", "amx_bf16", "amx_int8"],
};

/** The libraries that this machine can load. All where the processor does not tell. */
export function usableLibraries(platform, features = processorFeatures()) {
  const all = librariesOf(platform);
  if (platform !== "linux-x64" || features.size === 0) return all;
  const has = (isa) => (NEEDS[isa] ?? []).every((name) => features.has(name));
  return Object.fromEntries(Object.entries(all).filter(([isa]) => has(isa)));
}

/**
 * The libraries that this machine would load: those of the best instruction set alone, and with AMX
 * of the next one, too, since a system may refuse AMX. All where the processor does not tell.
 */
export function ownLibraries(platform, features = processorFeatures()) {
  const all = librariesOf(platform);
  if (platform !== "linux-x64" || features.size === 0) return all;
  const { avx2, avxvnni, avx512, amx, ...others } = all;
  const usable = usableLibraries(platform, features);
  if (!usable.avx512) return usable.avxvnni ? { avxvnni, ...others } : { avx2, ...others };
  return usable.amx ? { avx512, amx, ...others } : { avx512, ...others };
}
