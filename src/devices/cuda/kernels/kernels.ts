import { assert, EngineError } from "#base";
import { architectureOf, type CudaDriver, cudaVersionText, type Gpu } from "#devices/cuda/driver";
import { compileAll } from "./compile-pool.ts";
import type { KernelCache, KernelTarget } from "./kernel-cache.ts";
import { type Kernel, KernelModule } from "./kernel-module.ts";
import {
  KERNEL_FILE_NAMES,
  KERNEL_FILES,
  type KernelFile,
  type KernelName,
} from "./kernel-names.ts";
import { readKernel } from "./kernel-sources.ts";
import type { KernelText } from "./kernel-text.ts";
import type { Nvrtc } from "./nvrtc.ts";

/** Progress of loading a device's kernels. */
export interface KernelProgress {
  readonly done: number;
  readonly total: number;
  /** The last loaded file. */
  readonly file: string;
  /** Its machine code was on disk already. */
  readonly cached: boolean;
}

/** Options of loading kernels. */
export interface KernelLoadOptions {
  readonly driver: CudaDriver;
  readonly gpu: Gpu;
  readonly nvrtc: Nvrtc;
  readonly cache: KernelCache;
  readonly onProgress?: (progress: KernelProgress) => void;
}

/** Every kernel of this version, by name. */
export type Kernels = Readonly<Record<KernelName, Kernel>>;

/** Kernels of a device, and how to release them. */
export interface LoadedKernels {
  readonly kernels: Kernels;
  unload(): void;
}

/** Source lines are kept for profilers and compute-sanitizer; the machine code stays the same. */
export function compileOptions(architecture: string): readonly string[] {
  // A lambda in a kernel has no place for `__device__`; without this NVRTC treats it as host code.
  return [
    `--gpu-architecture=${architecture}`,
    "--std=c++17",
    "-default-device",
    "--generate-line-info",
  ];
}

/**
 * Loads all kernels into the current context; compiles those that are not on disk, several at once.
 * Throws DEVICE_UNAVAILABLE when one does not compile, or when NVRTC is older than the GPU.
 */
export async function loadKernels(options: KernelLoadOptions): Promise<LoadedKernels> {
  const loader = new KernelLoader(options);
  const missing = KERNEL_FILE_NAMES.filter((file) => !loader.loadCached(file));
  await loader.compile(missing);
  return loader.finish();
}

class KernelLoader {
  readonly #options: KernelLoadOptions;
  readonly #target: KernelTarget;
  readonly #sources: ReadonlyMap<KernelFile, KernelText>;
  readonly #modules = new Map<KernelFile, KernelModule>();

  constructor(options: KernelLoadOptions) {
    const architecture = architectureOf(options.gpu);
    this.#options = options;
    this.#sources = new Map(KERNEL_FILE_NAMES.map((file) => [file, readKernel(file)]));
    this.#target = {
      architecture,
      options: compileOptions(architecture),
      nvrtcVersion: options.nvrtc.version,
      driverVersion: options.driver.version,
    };
  }

  /** Whether the file's machine code was on disk and valid. */
  loadCached(file: KernelFile): boolean {
    const { cache } = this.#options;
    const source = this.#source(file);
    const cubin = cache.find(source, this.#target);
    if (cubin === null) return false;
    try {
      this.#load(file, cubin, true);
      return true;
    } catch (error) {
      // The driver refuses machine code that another one wrote under this key. Other errors have
      // other causes.
      if (!(error instanceof EngineError) || error.code !== "DEVICE_UNAVAILABLE") throw error;
      cache.forget(source, this.#target);
      return false;
    }
  }

  async compile(files: readonly KernelFile[]): Promise<void> {
    if (files.length === 0) return;
    const { nvrtc, cache } = this.#options;
    const { architecture, options } = this.#target;
    if (!nvrtc.supports(architecture)) {
      throw new EngineError(
        "DEVICE_UNAVAILABLE",
        `Cannot compile kernels for ${architecture}: an NVRTC that knows it wanted, ` +
          `${cudaVersionText(nvrtc.version)} at ${nvrtc.path} does not; install a newer one`,
      );
    }
    const sources = files.map((file) => this.#source(file));
    await compileAll(nvrtc, sources, options, (index, cubin) => {
      const [file, source] = [files[index], sources[index]];
      if (file === undefined || source === undefined) return;
      cache.store(source, this.#target, cubin);
      this.#load(file, cubin, false);
    });
  }

  /** All files are loaded. */
  finish(): LoadedKernels {
    const found = KERNEL_FILE_NAMES.flatMap((file) =>
      KERNEL_FILES[file].map((name): [KernelName, Kernel] => [name, this.#kernel(file, name)]),
    );
    // fromEntries forgets the key type; the list has every name.
    const kernels = Object.fromEntries(found) as Record<KernelName, Kernel>;
    return {
      kernels,
      unload: () => {
        for (const module of this.#modules.values()) module.unload();
      },
    };
  }

  #load(file: KernelFile, cubin: Uint8Array, cached: boolean): void {
    this.#modules.set(file, new KernelModule(this.#options.driver, cubin));
    const [done, total] = [this.#modules.size, KERNEL_FILE_NAMES.length];
    this.#options.onProgress?.({ done, total, file, cached });
  }

  #source(file: KernelFile): KernelText {
    const source = this.#sources.get(file);
    assert(source !== undefined, `Cannot find the source of ${file}`);
    return source;
  }

  #kernel(file: KernelFile, name: KernelName): Kernel {
    const module = this.#modules.get(file);
    assert(module !== undefined, `Cannot find kernel ${name}: ${file} was not loaded`);
    return module.kernel(name);
  }
}
