import type { CudaDriver } from "./driver.ts";

/** Properties of a GPU. */
export interface Gpu {
  /** CUdevice: the driver's handle of the GPU. */
  readonly device: number;
  readonly ordinal: number;
  readonly name: string;
  /** Compute capability, e.g. 9 and 0. */
  readonly major: number;
  readonly minor: number;
  readonly memoryBytes: number;
  readonly multiprocessors: number;
  readonly l2Bytes: number;
  /** Most dynamic shared memory of a block, once a kernel opted in to it. */
  readonly sharedBytesMax: number;
}

/** Bf16 on tensor cores and asynchronous copies: the first architecture that the kernels run on. */
export const CAPABILITY_MIN = { major: 8, minor: 0 } as const;

/** Numbers of cuda.h (CUdevice_attribute). */
const attributes = {
  multiprocessors: 16,
  l2Bytes: 38,
  major: 75,
  minor: 76,
  sharedBytesMax: 97,
} as const;

const nameBytes = 256;

/**
 * Reads the properties of GPU number `ordinal`; no context is made. Throws DEVICE_UNAVAILABLE when
 * there is none.
 */
export function describeGpu(driver: CudaDriver, ordinal: number): Gpu {
  const handle = new Int32Array(1);
  driver.run("cuDeviceGet", handle, ordinal);
  const device = handle[0] ?? 0;
  const read = (attribute: number): number => {
    const value = new Int32Array(1);
    driver.run("cuDeviceGetAttribute", value, attribute, device);
    return value[0] ?? 0;
  };
  const name = new Uint8Array(nameBytes);
  driver.run("cuDeviceGetName", name, nameBytes, device);
  const bytes = new BigUint64Array(1);
  driver.run("cuDeviceTotalMem", bytes, device);
  return {
    device,
    ordinal,
    name: new TextDecoder().decode(name.subarray(0, name.indexOf(0))),
    major: read(attributes.major),
    minor: read(attributes.minor),
    memoryBytes: Number(bytes[0] ?? 0n),
    multiprocessors: read(attributes.multiprocessors),
    l2Bytes: read(attributes.l2Bytes),
    sharedBytesMax: read(attributes.sharedBytesMax),
  };
}

/** Whether the kernels run on it. */
export function isSupported({ major, minor }: Gpu): boolean {
  return (
    major > CAPABILITY_MIN.major ||
    (major === CAPABILITY_MIN.major && minor >= CAPABILITY_MIN.minor)
  );
}

/**
 * The target of NVRTC and nvcc. Instructions of Hopper and Blackwell alone (wgmma, the copies of
 * tensors) need the `a` target, which runs on exactly this capability.
 */
export function architectureOf({ major, minor }: Pick<Gpu, "major" | "minor">): string {
  const own = major === 9 && minor === 0;
  return `sm_${major}${minor}${own ? "a" : ""}`;
}

/** `NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.8 GiB`. */
export function gpuText(gpu: Gpu): string {
  const memory = (gpu.memoryBytes / 2 ** 30).toFixed(1);
  const chip = `${gpu.name}, compute capability ${gpu.major}.${gpu.minor}`;
  return `${chip}, ${gpu.multiprocessors} multiprocessors, ${memory} GiB`;
}
