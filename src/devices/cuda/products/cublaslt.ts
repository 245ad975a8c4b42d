import { EngineError } from "#base";
import {
  bindCalls,
  type Calls,
  type CudaSettings,
  type CudaVersion,
  cublasError,
  cudaVersionText,
  libraryCandidates,
  loadedPath,
  type NativeLibrary,
  type NativeValue,
  type OpenLibrary,
  openSystemLibrary,
} from "#devices/cuda/driver";

const signatures = {
  // It returns a size_t that fits an int.
  cublasLtGetVersion: "cublasLtGetVersion()",
  cublasLtCreate: "cublasLtCreate(void *handle)",
  cublasLtDestroy: "cublasLtDestroy(void *handle)",
  cublasLtMatmulDescCreate:
    "cublasLtMatmulDescCreate(void *description, int computeType, int scaleType)",
  cublasLtMatmulDescDestroy: "cublasLtMatmulDescDestroy(void *description)",
  cublasLtMatmulDescSetAttribute:
    "cublasLtMatmulDescSetAttribute(void *description, int attribute, const void *value, " +
    "size_t bytes)",
  cublasLtMatrixLayoutCreate:
    "cublasLtMatrixLayoutCreate(void *layout, int type, uint64_t rows, uint64_t columns, " +
    "int64_t stride)",
  cublasLtMatrixLayoutDestroy: "cublasLtMatrixLayoutDestroy(void *layout)",
  cublasLtMatmulPreferenceCreate: "cublasLtMatmulPreferenceCreate(void *preference)",
  cublasLtMatmulPreferenceDestroy: "cublasLtMatmulPreferenceDestroy(void *preference)",
  cublasLtMatmulPreferenceSetAttribute:
    "cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, " +
    "size_t bytes)",
  cublasLtMatmulAlgoGetHeuristic:
    "cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c, " +
    "void *d, void *preference, int requested, void *results, void *found)",
  cublasLtMatmulAlgoCheck:
    "cublasLtMatmulAlgoCheck(void *handle, void *description, void *a, void *b, void *c, " +
    "void *d, const void *algorithm, void *result)",
  cublasLtMatmul:
    "cublasLtMatmul(void *handle, void *description, const void *alpha, uint64_t a, " +
    "void *aLayout, uint64_t b, void *bLayout, const void *beta, uint64_t c, void *cLayout, " +
    "uint64_t d, void *dLayout, const void *algorithm, uint64_t workspace, " +
    "size_t workspaceBytes, void *stream)",
};

/** cuBLASLt's functions by name. */
export type CublasLtCallName = keyof typeof signatures;

const remedy = "install the CUDA toolkit's cuBLAS, or pip install nvidia-cublas-cu12";

/** Oldest supported major version: fp8 GEMMs came with it. */
const majorMin = 12;

/** NVIDIA's GEMM library. Opens without a GPU; a handle needs a context. */
export class CublasLt {
  readonly path: string;
  /** As CUDA versions: 13010 for 13.1. */
  readonly version: CudaVersion;
  readonly #calls: Calls<CublasLtCallName>;

  private constructor(library: NativeLibrary) {
    this.#calls = bindCalls(library, { signatures, remedy });
    this.path = loadedPath(library.path);
    // 10000 * major + 100 * minor + patch.
    const found = this.#calls.cublasLtGetVersion();
    this.version = Math.floor(found / 10_000) * 1000 + Math.floor((found % 10_000) / 100) * 10;
  }

  /**
   * The first cuBLASLt that a driver of `driverVersion` runs. Throws DEVICE_UNAVAILABLE and lists
   * the libraries found.
   */
  static open(
    settings: CudaSettings,
    driverVersion: CudaVersion,
    open: OpenLibrary = openSystemLibrary,
  ): CublasLt {
    const majorMax = Math.floor(driverVersion / 1000);
    const refused = new Set<string>();
    const versions = [".so.13", ".so.12"];
    for (const path of libraryCandidates({ stem: "libcublasLt", versions }, settings)) {
      const library = open(path);
      if (library === null) continue;
      const cublas = new CublasLt(library);
      const major = Math.floor(cublas.version / 1000);
      if (major >= majorMin && major <= majorMax) return cublas;
      refused.add(`${cudaVersionText(cublas.version)} at ${cublas.path}`);
    }
    throw new EngineError(
      "DEVICE_UNAVAILABLE",
      `Cannot multiply matrices on cuda: cuBLASLt (libcublasLt) of CUDA ${majorMin} to ` +
        `${majorMax} wanted, ${[...refused].join(", ") || "none"} found; ` +
        `${remedy}, or set CUDA_HOME`,
    );
  }

  /** Calls one function. Throws the error of `status.ts` for a status other than success. */
  run(name: CublasLtCallName, ...args: readonly NativeValue[]): void {
    const status = this.#calls[name](...args);
    if (status !== 0) throw cublasError(name, status);
  }

  /** The same, where a failure is a regular result: returns the status. */
  status(name: CublasLtCallName, ...args: readonly NativeValue[]): number {
    return this.#calls[name](...args);
  }

  /** Creates one of its objects: a handle, a description, a layout, a preference. */
  create(name: CublasLtCallName, ...args: readonly NativeValue[]): bigint {
    const out = new BigUint64Array(1);
    this.run(name, out, ...args);
    return out[0] ?? 0n;
  }
}
