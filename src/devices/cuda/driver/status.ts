/** The one place that turns status codes of NVIDIA's libraries into errors. */
import { EngineError, type ErrorCode } from "#base";

/** A call that did not succeed. */
export interface FailedCall {
  /** `cuMemAlloc`. */
  readonly call: string;
  readonly status: number;
  /** `CUDA_ERROR_OUT_OF_MEMORY`. */
  readonly name: string;
  /** The library's description of the error; null without one. */
  readonly text: string | null;
}

interface Meaning {
  readonly code: ErrorCode;
  readonly remedy: string;
}

const unavailable = (remedy: string): Meaning => ({ code: "DEVICE_UNAVAILABLE", remedy });
const outOfMemory: Meaning = {
  code: "OUT_OF_MEMORY",
  remedy: "use a smaller model, context or KV pool, or stop what else runs on this GPU",
};
/** After these errors the context is lost: every later call fails in the same way. */
const broken: Meaning = {
  code: "DEVICE_FAILED",
  remedy: "start this process again; if it happens again, run it under compute-sanitizer",
};
const hardware: Meaning = {
  code: "DEVICE_FAILED",
  remedy: "start this process again; if it happens again, look at dmesg and nvidia-smi -q",
};
/** A call with wrong arguments: a bug of this project. */
const misuse: Meaning = { code: "DEVICE_FAILED", remedy: "this is a bug of perigee; report it" };

const reinstall = "reboot after a driver update, or install the driver again";
const recompile = "update the driver, or remove the folder of compiled kernels";

/** Codes of cuda.h (CUresult) whose remedy is known. */
const driverMeanings: ReadonlyMap<number, Meaning> = new Map([
  [2, outOfMemory],
  [34, unavailable("a toolkit's stub was loaded; install the NVIDIA driver")],
  [36, unavailable("update the NVIDIA driver")],
  [
    46,
    unavailable(
      "another process has exclusive use of this GPU, or it is in a bad state; see nvidia-smi",
    ),
  ],
  [100, unavailable("no GPU is visible; look at nvidia-smi and CUDA_VISIBLE_DEVICES")],
  [101, unavailable("there are fewer GPUs; look at nvidia-smi and CUDA_VISIBLE_DEVICES")],
  [200, unavailable(recompile)],
  [209, unavailable(recompile)],
  [218, unavailable(recompile)],
  [222, unavailable(recompile)],
  [802, unavailable("start nvidia-fabricmanager, which GPUs behind NVSwitch need")],
  [803, unavailable(reinstall)],
  [804, unavailable(reinstall)],
  [999, unavailable(`if nvidia-smi fails too: ${reinstall}`)],
  ...[214, 220, 226].map((status): [number, Meaning] => [status, hardware]),
  ...[700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721].map((status): [number, Meaning] => [
    status,
    broken,
  ]),
]);

/** An error of libcuda. */
export function driverError(failed: FailedCall): EngineError {
  return errorOf(failed, driverMeanings.get(failed.status) ?? misuse);
}

const nvrtcNames = [
  "NVRTC_SUCCESS",
  "NVRTC_ERROR_OUT_OF_MEMORY",
  "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
  "NVRTC_ERROR_INVALID_INPUT",
  "NVRTC_ERROR_INVALID_PROGRAM",
  "NVRTC_ERROR_INVALID_OPTION",
  "NVRTC_ERROR_COMPILATION",
  "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
] as const;

/** An error of NVRTC other than one in the source (`compile-error.ts`). */
export function nvrtcError(call: string, status: number, log: string | null): EngineError {
  const name = nvrtcNames[status] ?? `NVRTC status ${status}`;
  const remedy =
    name === "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"
      ? "install libnvrtc-builtins of the same version beside libnvrtc"
      : "install NVRTC again (pip install nvidia-cuda-nvrtc-cu12, or the CUDA toolkit)";
  const text = log === null ? null : (log.trim().split("\n")[0] ?? null);
  return errorOf({ call, status, name, text }, unavailable(remedy));
}

/** Codes of cublas_api.h (cublasStatus_t). */
const cublasNames: Readonly<Record<number, string>> = {
  1: "CUBLAS_STATUS_NOT_INITIALIZED",
  3: "CUBLAS_STATUS_ALLOC_FAILED",
  7: "CUBLAS_STATUS_INVALID_VALUE",
  8: "CUBLAS_STATUS_ARCH_MISMATCH",
  11: "CUBLAS_STATUS_MAPPING_ERROR",
  13: "CUBLAS_STATUS_EXECUTION_FAILED",
  14: "CUBLAS_STATUS_INTERNAL_ERROR",
  15: "CUBLAS_STATUS_NOT_SUPPORTED",
  16: "CUBLAS_STATUS_LICENSE_ERROR",
};

/** "There is no kernel for this": a regular result where several algorithms are tried. */
export const CUBLAS_NOT_SUPPORTED = 15;

const cublasMeanings: ReadonlyMap<number, Meaning> = new Map([
  [1, unavailable("install a cuBLAS of the driver's CUDA version")],
  [3, outOfMemory],
  [8, unavailable("install a cuBLAS that knows this GPU")],
  [13, broken],
]);

/** An error of cuBLASLt. */
export function cublasError(call: string, status: number): EngineError {
  const name = cublasNames[status] ?? `cuBLAS status ${status}`;
  return errorOf({ call, status, name, text: null }, cublasMeanings.get(status) ?? misuse);
}

function errorOf({ call, name, text }: FailedCall, { code, remedy }: Meaning): EngineError {
  const said = text === null ? name : `${name} (${text})`;
  return new EngineError(code, `Cannot run ${call} on cuda: success wanted, ${said}; ${remedy}`);
}
