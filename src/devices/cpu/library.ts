import koffi, { type LibraryHandle } from "koffi";
import { assert, EngineError, findNativeFile, nativeRemedy } from "#base";
import { chooseIsas, type Isa } from "./isa.ts";
import { KERNEL_NAMES, type Kernel, type KernelName, type Kernels } from "./kernels.ts";

/** The native library of one instruction set. Addresses are bigints. */
export interface CpuLibrary {
  readonly isa: Isa;
  readonly kernels: Kernels;
  kernelAddress(name: KernelName): bigint;
  /** Runs the calls of a program (replays.ts). */
  replay(program: ArrayBuffer, count: number): void;
  /** 1: the system lets this process use the instructions, 0: it refuses. To be asked first. */
  permit(): number;
  /** Physical cores that this process may use. */
  coreCount(): number;
  /** `pin` (0 or 1) binds every worker to a core. */
  createPool(threads: number, pin: number): bigint;
  destroyPool(pool: bigint): void;
  /** Zero-filled, 64-byte aligned; null when there is no memory left. */
  allocate(bytes: number): bigint | null;
  release(address: bigint, bytes: number): void;
  /** Either side may be host memory. */
  copy(to: bigint | ArrayBufferView, from: bigint | ArrayBufferView, bytes: number): void;
  /** Native memory as an ArrayBuffer, at most 4 GiB. Dead once the memory is released. */
  view(address: bigint, bytes: number): ArrayBuffer;
  /** `pairs`: read before it returns. */
  moveBlocks(params: ArrayBuffer, pairs: Int32Array): void;
  activationRowBytes(format: number, columns: number): number;
  matrixBytes(format: number, rows: number, columns: number): number;
  /** `source`: the file's bytes, read before it returns. */
  pack(params: ArrayBuffer, source: Uint8Array): void;
  /** Bytes of a q8 matrix (native/cpu/pack-blocks.cpp); `packedBegin` writes its header. */
  packedBytes(params: ArrayBuffer): number;
  packedBegin(params: ArrayBuffer, matrix: bigint): void;
  /** Returns the number of blocks with scales that are no numbers. */
  packBlocks(params: ArrayBuffer, source: Uint8Array): number;
  /** Any element type to f32. */
  widen(to: bigint, source: Uint8Array, element: number, count: number): void;
  /** Rows of an activation as the numbers they stand for, to host memory. */
  unpackActivation(params: ArrayBuffer, out: Float32Array): void;
}

const loaded = new Map<Isa, CpuLibrary>();

/**
 * The library for `isa`, or for the best instruction set of this processor that may be used. Throws
 * DEVICE_UNAVAILABLE when the processor lacks it, when it was not built or when the system refuses
 * it.
 */
export function loadLibrary(isa?: Isa): CpuLibrary {
  const chosen = chooseIsas(isa);
  const built = chosen.filter(isBuilt);
  // A checkout builds the best one alone; where none is there, the best is the one to ask for.
  const [best, ...others] = built.length > 0 ? built : chosen;
  assert(best !== undefined, "Cannot load a library: no instruction set was chosen");
  if (best !== "amx") return libraryOf(best);
  // Older compilers and systems lack it, and a sandbox may refuse its permission.
  const permitted = isBuilt(best) || others.length === 0 ? libraryOf(best).permit() : 0;
  if (permitted === 1) return libraryOf(best);
  if (others[0] !== undefined) return libraryOf(others[0]);
  throw new EngineError(
    "DEVICE_UNAVAILABLE",
    "Cannot open the cpu device: the system's permission for AMX wanted, it was refused; use " +
      "instruction set avx512",
    { param: "isa" },
  );
}

function libraryOf(isa: Isa): CpuLibrary {
  const known = loaded.get(isa);
  if (known !== undefined) return known;
  const library = bind(isa, open(isa));
  loaded.set(isa, library);
  return library;
}

/** Whether there is a library for `isa`. */
export function isBuilt(isa: Isa): boolean {
  return findNativeFile(isa) !== null;
}

function open(isa: Isa): LibraryHandle {
  const path = findNativeFile(isa);
  if (path === null) {
    throw new EngineError(
      "DEVICE_UNAVAILABLE",
      `Cannot open the cpu device: native library libperigee-${isa} wanted, there is none; ` +
        nativeRemedy(),
    );
  }
  try {
    return koffi.load(path);
  } catch (cause) {
    throw new EngineError(
      "DEVICE_UNAVAILABLE",
      `Cannot load the native library ${path}: a file for this system wanted; ${nativeRemedy()}`,
      { cause },
    );
  }
}

function bind(isa: Isa, handle: LibraryHandle): CpuLibrary {
  const native = (signature: string) => handle.func(signature);
  return {
    isa,
    kernels: bindKernels(handle),
    kernelAddress: (name) => koffi.address(handle.symbol(`perigee_${name}`, "void *")),
    replay: native("void perigee_replay(const void *program, int32_t count)"),
    permit: native("int32_t perigee_permit()"),
    coreCount: native("int32_t perigee_core_count()"),
    createPool: native("void *perigee_pool_create(int32_t threads, int32_t pin)"),
    destroyPool: native("void perigee_pool_destroy(void *pool)"),
    allocate: native("void *perigee_allocate(int64_t bytes)"),
    release: native("void perigee_release(void *memory, int64_t bytes)"),
    copy: native("void perigee_copy(void *to, const void *from, int64_t bytes)"),
    view: koffi.view,
    moveBlocks: native("void perigee_move_blocks(void *params, const int32_t *pairs)"),
    activationRowBytes: native("int64_t perigee_activation_row_bytes(int32_t f, int64_t columns)"),
    matrixBytes: native("int64_t perigee_matrix_bytes(int32_t f, int64_t rows, int64_t columns)"),
    pack: native("void perigee_pack(void *params, const void *source)"),
    packedBytes: native("int64_t perigee_packed_bytes(void *params)"),
    packedBegin: native("void perigee_packed_begin(void *params, void *matrix)"),
    packBlocks: native("int64_t perigee_pack_blocks(void *params, const void *source)"),
    widen: native("void perigee_widen(void *to, const void *source, int32_t element, int64_t n)"),
    unpackActivation: native("void perigee_unpack_activation(void *params, void *out)"),
  };
}

function bindKernels(handle: LibraryHandle): Kernels {
  const bound = KERNEL_NAMES.map((name): [KernelName, Kernel] => [
    name,
    handle.func(`void perigee_${name}(void *params)`),
  ]);
  // fromEntries forgets the key type; the list above has every name.
  return Object.fromEntries(bound) as Record<KernelName, Kernel>;
}
