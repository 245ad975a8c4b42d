import { EngineError } from "#base";
import type { Device, DeviceTensor, LinearInput, WeightFormat, WeightSource } from "#devices";
import {
  decodeFloats,
  elementCount,
  findNonFinite,
  formatShape,
  type Shape,
  sameShape,
} from "#tensor";
import type { LinearNames } from "./weight-names.ts";

/** A packed matrix with its bias, to be spread into the input of `Device.linear`. */
export type LinearWeights = Pick<LinearInput, "weight" | "bias">;

/** The extents that a stacked matrix must have. */
export interface LinearShape {
  /** Rows of each of the stacked modules. */
  readonly rows: readonly number[];
  readonly columns: number;
}

/** The checkpoint's tensors by name, read on demand. */
export type WeightSources = ReadonlyMap<string, WeightSource>;

/** Source of a model's weights. */
export interface WeightSupply {
  /** Number of tensors. */
  readonly size: number;
  /** The tensor of this name; a generated one gets the given shape. */
  get(name: string, shape: Shape): WeightSource | undefined;
}

/** How a model's weights are loaded. */
export interface WeightOptions {
  readonly sources: WeightSupply;
  readonly format: WeightFormat;
  /** Receives, after each tensor, how many elements of the sources were read so far. */
  readonly onProgress?: (elements: number) => void;
}

/** Names of LayerNorm's parameters when BERT was published. */
const formerNames: readonly (readonly [string, string])[] = [
  [".weight", ".gamma"],
  [".bias", ".beta"],
];

/**
 * Takes weights out of a checkpoint: finds them, checks their shapes, packs them, and releases the
 * file's pages. Unused tensors (rotary tables, masks, a tied output layer) stay unread.
 */
export class WeightLoader {
  readonly #device: Device;
  readonly #sources: WeightSupply;
  readonly #optionalPrefix: string;
  readonly #counted = new Set<string>();
  readonly #onProgress: (elements: number) => void;
  #parameters = 0;
  #elements = 0;

  constructor(device: Device, optionalPrefix: string, options: WeightOptions) {
    this.#device = device;
    this.#sources = options.sources;
    this.#optionalPrefix = optionalPrefix;
    this.#onProgress = options.onProgress ?? (() => {});
  }

  /** Elements loaded so far, each tensor counted once. */
  get parameters(): number {
    return this.#parameters;
  }

  /** The modules' matrices stacked by rows, and their biases. */
  linear(names: LinearNames, shape: LinearShape, format: WeightFormat): LinearWeights {
    const transposed = names.transposed === true;
    const sources = names.modules.map((module, i) => {
      const extents = [shape.rows[i] ?? 0, shape.columns];
      return this.#find(`${module}.weight`, transposed ? extents.reverse() : extents);
    });
    const weight = this.#device.pack(sources, { format, transposed });
    for (const source of sources) this.#finish(source);
    if (!names.bias) return { weight };
    const biases = names.modules.map((module, i) =>
      this.floats(`${module}.bias`, [shape.rows[i] ?? 0]),
    );
    return { weight, bias: this.upload(concatenate(biases)) };
  }

  /** An f32 tensor of exactly this shape. */
  tensor(name: string, shape: Shape): DeviceTensor {
    const source = this.#find(name, shape);
    const tensor = this.#device.load(source);
    this.#finish(source);
    return tensor;
  }

  /** The same, on the host. The copy belongs to the caller. */
  floats(name: string, shape: Shape): Float32Array {
    const source = this.#find(name, shape);
    const floats = decodeFloats(source.bytes(), source.dtype).slice();
    this.#finish(source);
    return floats;
  }

  /** An f32 tensor made on the host, of `shape` or a vector. */
  upload(data: Float32Array, shape: Shape = [data.length]): DeviceTensor {
    const tensor = this.#device.allocate("f32", shape);
    this.#device.write(tensor, data);
    return tensor;
  }

  #find(name: string, shape: Shape): WeightSource {
    const source = this.#candidates(name)
      .map((candidate) => this.#sources.get(candidate, shape))
      .find((found) => found !== undefined);
    if (source === undefined) {
      throw new EngineError(
        "CHECKPOINT_INVALID",
        `Cannot load weights: a tensor ${name} ${formatShape(shape)} is wanted, ` +
          `none of the checkpoint's ${this.#sources.size} has this name; ` +
          "check that config.json belongs to these files",
        { param: name },
      );
    }
    if (!sameShape(source.shape, shape)) {
      throw new EngineError(
        "CHECKPOINT_INVALID",
        `Cannot load ${source.name}: shape must be ${formatShape(shape)} by config.json, ` +
          `current value is ${formatShape(source.shape)}`,
        { param: source.name },
      );
    }
    this.#count(source);
    return source.random === undefined ? checked(source) : source;
  }

  /** The expected name, then its variants in other checkpoints. */
  #candidates(name: string): string[] {
    const former = formerNames.flatMap(([suffix, old]) =>
      name.endsWith(suffix) ? [name.slice(0, -suffix.length) + old] : [],
    );
    const all = [name, ...former];
    const bare = all
      .filter((candidate) => candidate.startsWith(this.#optionalPrefix))
      .map((candidate) => candidate.slice(this.#optionalPrefix.length));
    return [...all, ...bare];
  }

  #finish(source: WeightSource): void {
    source.discard();
    this.#elements += elementCount(source.shape);
    this.#onProgress(this.#elements);
  }

  #count(source: WeightSource): void {
    if (this.#counted.has(source.name)) return;
    this.#counted.add(source.name);
    this.#parameters += elementCount(source.shape);
  }
}

/**
 * The same weights, checked when their bytes are read: an infinite number or NaN makes every later
 * token arbitrary, and int8 would hide it. A device that reads the file itself does not call
 * `bytes`, so matrices on a GPU are not checked; one that takes blocks checks their scales.
 */
function checked(source: WeightSource): WeightSource {
  const { name, dtype, shape, file, packed } = source;
  const bytes = (): Uint8Array => {
    const read = source.bytes();
    const found = findNonFinite(read, dtype);
    if (found === null) return read;
    const value = decodeFloats(read, dtype)[found];
    throw new EngineError(
      "CHECKPOINT_INVALID",
      `Cannot load ${name}: all of its numbers must be finite, element ${found} is ${value}; ` +
        "download the file again, or use another checkpoint of the model",
      { param: name },
    );
  };
  const discard = (): void => source.discard();
  return {
    name,
    dtype,
    shape,
    ...(file === undefined ? {} : { file }),
    ...(packed === undefined ? {} : { packed }),
    bytes,
    discard,
  };
}

function concatenate(parts: readonly Float32Array[]): Float32Array {
  const out = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let start = 0;
  for (const part of parts) {
    out.set(part, start);
    start += part.length;
  }
  return out;
}
