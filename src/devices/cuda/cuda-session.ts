import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { EngineError } from "#base";
import {
  CAPABILITY_MIN,
  CudaDriver,
  type CudaSettings,
  CudaStream,
  describeGpu,
  type Gpu,
  isSupported,
  Marks,
  type OpenLibrary,
  openSystemLibrary,
  PrimaryContext,
} from "#devices/cuda/driver";
import { Replays } from "#devices/cuda/graphs";
import {
  KernelCache,
  type KernelProgress,
  Launcher,
  type LoadedKernels,
  loadKernels,
  Nvrtc,
} from "#devices/cuda/kernels";
import {
  AddressTables,
  allocateArrivals,
  CudaHostSlots,
  CudaMemory,
  LateReads,
  LayerMoves,
  PeerPools,
  Scratch,
  Staging,
} from "#devices/cuda/memory";
import type { CudaContext } from "#devices/cuda/ops";
import { CublasLt, Products } from "#devices/cuda/products";
import { FileUploads } from "#devices/cuda/weights";
import type { SlotDirection } from "../device.ts";

/** Options of opening a GPU. */
export interface CudaSessionOptions {
  /** Number of the GPU; 0, the first that this process sees, by default. */
  readonly ordinal?: number;
  /** Numbers beyond the visible GPUs begin again at 0. Default: false, they are refused. */
  readonly sharesGpus?: boolean;
  /** Paths of libraries and compiled kernels. */
  readonly settings?: CudaSettings;
  /** Receives each file of kernels that is ready. */
  readonly onProgress?: (progress: KernelProgress) => void;
  /** Receives one line for each avoidable cost in time. */
  readonly warn?: (message: string) => void;
  /**
   * The value of every byte of new device memory: 0, as the contract demands. Tests take another
   * value, so that an element that no kernel wrote is detected.
   */
  readonly freshByte?: number;
  /** Opens libraries; the system's by default. */
  readonly openLibrary?: OpenLibrary;
}

/** Device buffer of a part of a file until its kernel has read it. */
const landingBytes = 64 << 20;

/** An open GPU: its context, stream, memory and kernels. */
export class CudaSession {
  readonly driver: CudaDriver;
  readonly gpu: Gpu;
  readonly stream: CudaStream;
  readonly memory: CudaMemory;
  readonly staging: Staging;
  readonly files: FileUploads;
  readonly lateReads: LateReads;
  readonly moves: LayerMoves;
  readonly peers: PeerPools;
  readonly #hostSlots = new Set<CudaHostSlots>();
  readonly #warn: ((message: string) => void) | undefined;
  /** CUDA graphs of steps; null where steps are not captured. */
  readonly replays: Replays | null;
  readonly marks: Marks;
  readonly context: CudaContext;
  readonly landing: { readonly address: bigint; readonly bytes: number };
  readonly #primary: PrimaryContext;
  readonly #loaded: LoadedKernels;
  #disposed = false;

  private constructor(
    primary: PrimaryContext,
    loaded: LoadedKernels,
    { cublas, folder }: { readonly cublas: CublasLt | null; readonly folder: string | null },
    { settings, freshByte = 0, warn }: CudaSessionOptions,
  ) {
    const { driver, gpu } = primary;
    this.driver = driver;
    this.gpu = gpu;
    this.#warn = warn;
    this.#primary = primary;
    this.#loaded = loaded;
    this.stream = new CudaStream(driver);
    this.memory = new CudaMemory(driver, this.stream, {
      freshByte,
      ...(warn === undefined ? {} : { warn }),
    });
    this.staging = new Staging({ driver, memory: this.memory, stream: this.stream });
    this.files = new FileUploads({ driver, memory: this.memory, stream: this.stream, warn });
    this.lateReads = new LateReads({ driver, memory: this.memory, stream: this.stream });
    const kernel = loaded.kernels.move_layers;
    this.moves = new LayerMoves({ driver, gpu, stream: this.stream, kernel });
    this.peers = new PeerPools({ driver, gpu, kernel });
    const replays = settings?.graphs !== false;
    this.replays = replays ? new Replays({ stream: this.stream, warn }) : null;
    this.marks = new Marks(driver, this.stream);
    const address = this.memory.allocate(landingBytes, "staging memory of weights");
    this.landing = { address, bytes: landingBytes };
    const { memory, moves, staging, stream } = this;
    this.context = {
      kernels: loaded.kernels,
      launcher: new Launcher(driver, stream, gpu),
      gpu,
      scratch: new Scratch(memory),
      tables: new AddressTables(memory, staging),
      moves,
      arrivals: allocateArrivals(memory, gpu),
      products:
        cublas === null ? null : new Products({ cublas, driver, gpu, memory, stream, folder }),
    };
  }

  /** Throws DEVICE_UNAVAILABLE, with the remedy; whatever was opened by then is released. */
  static async open(options: CudaSessionOptions): Promise<CudaSession> {
    const { settings = {}, openLibrary = openSystemLibrary, ordinal = 0 } = options;
    const driver = CudaDriver.open(settings, openLibrary);
    const gpu = chooseGpu(driver, ordinal, options.sharesGpus === true);
    const nvrtc = Nvrtc.open(settings, driver.version, openLibrary);
    const cublas = openCublas(driver, options);
    const cache = new KernelCache(settings.cacheFolder ?? null, options.warn);
    const primary = new PrimaryContext(driver, gpu);
    try {
      const { onProgress } = options;
      const progress = onProgress === undefined ? {} : { onProgress };
      const loaded = await loadKernels({ driver, gpu, nvrtc, cache, ...progress });
      // Other code of this thread may have run meanwhile and changed the current context.
      primary.makeCurrent();
      return new CudaSession(primary, loaded, { cublas, folder: cache.folder }, options);
    } catch (error) {
      primary.release();
      throw error;
    }
  }

  /** Pools of all GPUs of one running system may reach each other. */
  get sharingScope(): string {
    return `cuda ${bootId()}`;
  }

  openHostSlots(memory: readonly Uint8Array[], direction: SlotDirection): CudaHostSlots {
    const { driver, stream } = this;
    const options = { driver, memory: this.memory, stream };
    const warn = this.#warn === undefined ? {} : { warn: this.#warn };
    const slots = new CudaHostSlots({ ...options, ...warn }, memory, direction);
    this.#hostSlots.add(slots);
    return slots;
  }

  closeHostSlots(slots: CudaHostSlots): void {
    if (this.#hostSlots.delete(slots)) slots.dispose();
  }

  /** Waits for everything enqueued. */
  synchronize(): void {
    this.moves.settleAll();
    this.stream.synchronize();
    for (const slots of this.#hostSlots) slots.synchronize();
  }

  /** Frees everything. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.replays?.dispose();
    this.context.products?.dispose();
    this.lateReads.dispose();
    this.peers.dispose();
    for (const slots of this.#hostSlots) slots.dispose();
    this.moves.dispose();
    this.files.close();
    this.staging.dispose();
    this.memory.dispose();
    this.stream.destroy();
    this.#loaded.unload();
    // Abandoned regions would be freed with the context.
    if (!this.memory.abandons) this.#primary.release();
  }
}

/** Of one start of one machine. */
function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return randomUUID(); // Not Linux: there are no interprocess handles either.
  }
}

/** Null without cuBLASLt: everything runs, but GEMMs of many rows are slow. */
function openCublas(driver: CudaDriver, options: CudaSessionOptions): CublasLt | null {
  const { settings = {}, openLibrary = openSystemLibrary, warn } = options;
  try {
    return CublasLt.open(settings, driver.version, openLibrary);
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== "DEVICE_UNAVAILABLE") throw error;
    warn?.(`${error.message}. Prompts are processed by Perigee's own kernels, which are slower`);
    return null;
  }
}

/**
 * The GPU of that number. Throws DEVICE_UNAVAILABLE when the kernels of this version do not run on
 * it.
 */
function chooseGpu(driver: CudaDriver, wanted: number, shares: boolean): Gpu {
  const count = driver.gpuCount();
  const ordinal = shares && count > 0 ? wanted % count : wanted;
  if (ordinal >= count) {
    throw new EngineError(
      "DEVICE_UNAVAILABLE",
      `Cannot open the cuda device: GPU ${ordinal} wanted, ${count} visible; ` +
        'look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use device: "cpu" (--device cpu)',
    );
  }
  const gpu = describeGpu(driver, ordinal);
  if (isSupported(gpu)) return gpu;
  const { major, minor } = CAPABILITY_MIN;
  throw new EngineError(
    "DEVICE_UNAVAILABLE",
    `Cannot open the cuda device: compute capability ${major}.${minor} or newer wanted, ` +
      `${gpu.name} has ${gpu.major}.${gpu.minor}; use a GPU from Ampere (2020) on, ` +
      'or device: "cpu" (--device cpu)',
  );
}
