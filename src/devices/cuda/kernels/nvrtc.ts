import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { EngineError } from "#base";
import {
  bindCalls,
  type Calls,
  type CudaSettings,
  type CudaVersion,
  cudaVersionText,
  libraryCandidates,
  loadedPath,
  type NativeLibrary,
  nvrtcError,
  type OpenLibrary,
  openSystemLibrary,
} from "#devices/cuda/driver";
import { compileError } from "./compile-error.ts";
import type { KernelText } from "./kernel-text.ts";

const signatures = {
  nvrtcVersion: "nvrtcVersion(void *major, void *minor)",
  nvrtcGetNumSupportedArchs: "nvrtcGetNumSupportedArchs(void *count)",
  nvrtcGetSupportedArchs: "nvrtcGetSupportedArchs(void *archs)",
  nvrtcCreateProgram:
    "nvrtcCreateProgram(void *program, const char *source, const char *name, int count, " +
    "const char **headers, const char **includeNames)",
  nvrtcDestroyProgram: "nvrtcDestroyProgram(void *program)",
  nvrtcCompileProgram: "nvrtcCompileProgram(void *program, int count, const char **options)",
  nvrtcGetProgramLogSize: "nvrtcGetProgramLogSize(void *program, void *bytes)",
  nvrtcGetProgramLog: "nvrtcGetProgramLog(void *program, void *log)",
  nvrtcGetCUBINSize: "nvrtcGetCUBINSize(void *program, void *bytes)",
  nvrtcGetCUBIN: "nvrtcGetCUBIN(void *program, void *cubin)",
};

const remedy = "install the CUDA toolkit's NVRTC, or pip install nvidia-cuda-nvrtc-cu12";

/** Oldest supported NVRTC, CUDA 12.4: as with the driver. */
export const NVRTC_VERSION_MIN: CudaVersion = 12_040;

/** The NVRTC that was found. */
export interface NvrtcLocation {
  readonly path: string;
  readonly version: CudaVersion;
}

const compilationFailed = 6;

/** NVIDIA's run-time compiler. It needs no GPU. */
export class Nvrtc implements NvrtcLocation {
  readonly path: string;
  readonly version: CudaVersion;
  readonly #calls: Calls<keyof typeof signatures>;

  private constructor(library: NativeLibrary) {
    this.#calls = bindCalls(library, { signatures, remedy });
    this.path = loadedPath(library.path);
    const major = new Int32Array(1);
    const minor = new Int32Array(1);
    this.#run("nvrtcVersion", this.#calls.nvrtcVersion(major, minor));
    this.version = (major[0] ?? 0) * 1000 + (minor[0] ?? 0) * 10;
  }

  /**
   * The first NVRTC whose kernels a driver of `driverVersion` runs: kernels of a newer major
   * version need a newer driver. Throws DEVICE_UNAVAILABLE and lists the libraries found.
   */
  static open(
    settings: CudaSettings,
    driverVersion: CudaVersion,
    open: OpenLibrary = openSystemLibrary,
  ): Nvrtc {
    const majorMax = Math.floor(driverVersion / 1000);
    const refused = new Set<string>();
    const versions = [".so.13", ".so.12"];
    for (const path of libraryCandidates({ stem: "libnvrtc", versions }, settings)) {
      const nvrtc = Nvrtc.openAt(path, open);
      if (nvrtc === null) continue;
      const { version } = nvrtc;
      if (version >= NVRTC_VERSION_MIN && Math.floor(version / 1000) <= majorMax) return nvrtc;
      refused.add(`${cudaVersionText(version)} at ${nvrtc.path}`);
    }
    throw new EngineError(
      "DEVICE_UNAVAILABLE",
      `Cannot compile kernels for cuda: NVRTC (libnvrtc) ${cudaVersionText(NVRTC_VERSION_MIN)} ` +
        `or newer, of CUDA ${majorMax} at most, wanted; ` +
        `${[...refused].join(", ") || "none"} found; ` +
        `${remedy}, or set CUDA_HOME`,
    );
  }

  /** The NVRTC at a path or with a name; null when there is none. */
  static openAt(path: string, open: OpenLibrary = openSystemLibrary): Nvrtc | null {
    openBuiltins(path, open);
    const library = open(path);
    return library === null ? null : new Nvrtc(library);
  }

  /** Whether it compiles for `sm_90a` and the like. */
  supports(architecture: string): boolean {
    const count = new Int32Array(1);
    this.#run("nvrtcGetNumSupportedArchs", this.#calls.nvrtcGetNumSupportedArchs(count));
    const found = new Int32Array(count[0] ?? 0);
    this.#run("nvrtcGetSupportedArchs", this.#calls.nvrtcGetSupportedArchs(found));
    // NVRTC reports numbers only; an `a` target is as old as its number.
    return found.includes(Number(architecture.replace(/\D/g, "")));
  }

  /**
   * Machine code of all kernels in a file. Throws DEVICE_UNAVAILABLE with the file's line when the
   * source does not compile. Blocks this thread, for milliseconds up to seconds.
   */
  compile(source: KernelText, options: readonly string[]): Uint8Array {
    const names = Object.keys(source.headers);
    const handle = new BigUint64Array(1);
    const created = this.#calls.nvrtcCreateProgram(
      handle,
      source.text,
      source.path,
      names.length,
      names.map((name) => source.headers[name] ?? ""),
      names,
    );
    this.#run("nvrtcCreateProgram", created);
    const program = handle[0] ?? 0n;
    try {
      const status = this.#calls.nvrtcCompileProgram(program, options.length, options);
      if (status === compilationFailed) throw compileError(source, this.#log(program));
      if (status !== 0) throw nvrtcError("nvrtcCompileProgram", status, this.#log(program));
      return this.#cubin(program);
    } finally {
      this.#calls.nvrtcDestroyProgram(handle);
    }
  }

  #cubin(program: bigint): Uint8Array {
    const size = new BigUint64Array(1);
    this.#run("nvrtcGetCUBINSize", this.#calls.nvrtcGetCUBINSize(program, size));
    const cubin = new Uint8Array(Number(size[0] ?? 0n));
    this.#run("nvrtcGetCUBIN", this.#calls.nvrtcGetCUBIN(program, cubin));
    return cubin;
  }

  /** The compiler's messages, without the terminating zero. */
  #log(program: bigint): string {
    const size = new BigUint64Array(1);
    this.#run("nvrtcGetProgramLogSize", this.#calls.nvrtcGetProgramLogSize(program, size));
    const log = new Uint8Array(Number(size[0] ?? 0n));
    this.#run("nvrtcGetProgramLog", this.#calls.nvrtcGetProgramLog(program, log));
    return new TextDecoder().decode(log).replace(/\0+$/, "");
  }

  #run(call: string, status: number): void {
    if (status !== 0) throw nvrtcError(call, status, null);
  }
}

/** Opened builtins libraries of NVRTC; an unreferenced library would be closed again. */
const openedBuiltins: NativeLibrary[] = [];

/**
 * Opens libnvrtc-builtins beside a libnvrtc that is given by its path. NVRTC asks the loader for it
 * by name in the middle of a compilation, and pip's has no search path of its own: the loader finds
 * only a library that is open already.
 */
function openBuiltins(path: string, open: OpenLibrary): void {
  if (!path.includes("/")) return;
  const folder = dirname(path);
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return; // The folder was removed: opening the library itself reports that.
  }
  for (const name of names.filter((each) => each.startsWith("libnvrtc-builtins.so"))) {
    const library = open(join(folder, name));
    if (library !== null) openedBuiltins.push(library);
  }
}
