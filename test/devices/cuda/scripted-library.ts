/** Libraries whose functions are written here: what a machine without a GPU cannot have. */
import type { NativeValue, OpenLibrary } from "../../../src/devices/cuda/driver/native-library.ts";

type Script = Readonly<Record<string, (...args: readonly NativeValue[]) => number>>;

/** One library per name. A function that no script names succeeds and does nothing. */
export function scriptedLibraries(libraries: Readonly<Record<string, Script>>): OpenLibrary {
  return (path) => {
    const script = libraries[path];
    if (script === undefined) return null;
    return {
      path,
      bind(signature) {
        const name = /^int (\w+)\(/.exec(signature)?.[1] ?? signature;
        return script[name] ?? (() => 0);
      },
    };
  };
}

/** What a scripted driver says. */
export interface ScriptedDriver {
  readonly version?: number;
  /** Compute capabilities of its GPUs. */
  readonly gpus?: readonly (readonly [major: number, minor: number])[];
  /** Status of a call by its name. */
  readonly fails?: Readonly<Record<string, number>>;
}

/** libcuda with some GPUs called `GPU 0`, `GPU 1`, … */
export function scriptedDriver({ version = 13_000, gpus = [[9, 0]], fails = {} }: ScriptedDriver) {
  const script: Record<string, (...args: readonly NativeValue[]) => number> = {
    cuDriverGetVersion: (out) => put(out, version),
    cuDeviceGetCount: (out) => put(out, gpus.length),
    cuDeviceGet: (out, ordinal) =>
      Number(ordinal) < gpus.length ? put(out, Number(ordinal)) : 101,
    cuDeviceGetName: (out, _length, device) => {
      new TextEncoder().encodeInto(`GPU ${device}`, bytesOf(out));
      return 0;
    },
    cuDeviceTotalMem_v2: (out) => put(out, 80 * 2 ** 30),
    cuDeviceGetAttribute: (out, attribute, device) => {
      const [major, minor] = gpus[Number(device)] ?? [0, 0];
      const known: Record<number, number> = { 16: 132, 75: major, 76: minor };
      return put(out, known[Number(attribute)] ?? 0);
    },
    cuGetErrorName: (status, out) => putText(out, `CUDA_ERROR_${status}`),
    cuGetErrorString: (_status, out) => putText(out, "what the driver says"),
  };
  for (const [name, status] of Object.entries(fails)) script[name] = () => status;
  return script;
}

/** libnvrtc of a version. */
export function scriptedNvrtc(major: number, minor: number): Script {
  return { nvrtcVersion: (first, second) => put(first, major) || put(second, minor) };
}

/** Writes a number to where a call puts its result. */
export function put(out: NativeValue | undefined, value: number): number {
  if (out instanceof BigUint64Array) out[0] = BigInt(value);
  else if (out instanceof Int32Array) out[0] = value;
  else throw new Error("no memory for a result");
  return 0;
}

function putText(out: NativeValue | undefined, text: string): number {
  if (!Array.isArray(out)) throw new Error("no list for a text");
  out[0] = text;
  return 0;
}

function bytesOf(out: NativeValue | undefined): Uint8Array {
  if (!(out instanceof Uint8Array)) throw new Error("no memory for a text");
  return out;
}
