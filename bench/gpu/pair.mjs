// The definition's device and the one under test, given the same memory and the same ops.
import { ReferenceDevice } from "../../dist/devices/index.js";
import { elementCount } from "../../dist/tensor/index.js";

/** Numbers from a seed (xorshift), roughly normal where floats are asked for. */
export class RandomNumbers {
  #state;

  constructor(seed) {
    this.#state = (seed * 2654435761 + 88675123) >>> 0 || 1;
    for (let i = 0; i < 8; i++) this.uniform();
  }

  /** In [0, 1). */
  uniform() {
    let x = this.#state;
    x ^= x << 13;
    x >>>= 0;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#state = x >>> 0;
    return this.#state / 2 ** 32;
  }

  /** In [0, end), a whole number. */
  below(end) {
    return Math.floor(this.uniform() * end);
  }

  /** As many bytes. */
  bytes(count) {
    const values = new Uint8Array(count);
    for (let i = 0; i < count; i++) values[i] = this.below(256);
    return values;
  }

  /** Sums of four uniform draws, centred, of variance `scale` squared. */
  floats(count, scale = 1) {
    const values = new Float32Array(count);
    for (let i = 0; i < count; i++) {
      const sum = this.uniform() + this.uniform() + this.uniform() + this.uniform();
      values[i] = (sum - 2) * Math.sqrt(3) * scale;
    }
    return values;
  }
}

/** Both devices. A handle is `{ defined, tested }`; `pick` takes the side that an op runs on. */
export class Pair {
  defined = new ReferenceDevice();
  #handles = [];

  constructor(tested) {
    this.tested = tested;
  }

  make(build) {
    const both = { defined: build(this.defined), tested: build(this.tested) };
    this.#handles.push(both);
    return both;
  }

  tensor(dtype, shape, data) {
    return this.make((device) => {
      const tensor = device.allocate(dtype, shape);
      if (data !== undefined && data.length > 0) device.write(tensor, data);
      return tensor;
    });
  }

  f32(shape, data) {
    return this.tensor("f32", shape, data === undefined ? undefined : Float32Array.from(data));
  }

  i32(data, shape = [data.length]) {
    return this.tensor("i32", shape, Int32Array.from(data));
  }

  u32(data, shape = [data.length]) {
    return this.tensor("u32", shape, Uint32Array.from(data));
  }

  activation(format, rows, columns) {
    return this.make((device) => device.allocateActivation(format, rows, columns));
  }

  /** Random weights [rows, columns] in `format`. */
  matrix(format, rows, columns, random, options = {}) {
    const data = random.floats(rows * columns);
    const bytes = new Uint8Array(data.buffer);
    const shape = options.transposed ? [columns, rows] : [rows, columns];
    const source = { name: "weights", dtype: "f32", shape, bytes: () => bytes, discard() {} };
    return this.make((device) => device.pack([source], { format, ...options }));
  }

  run(op) {
    op(this.defined, (both) => both.defined);
    op(this.tested, (both) => both.tested);
  }

  /** Compares the first `rows` rows (all by default). Throws nothing: the verdict says it. */
  async compare(both, { absolute = 0, relative = 0, rows } = {}) {
    const integers = both.defined.dtype === "i32";
    const read = (device, handle) => (integers ? device.readI32(handle) : device.readF32(handle));
    const wanted = await read(this.defined, both.defined);
    const actual = await read(this.tested, both.tested);
    const { shape, columns } = both.defined;
    const width = columns ?? elementCount(shape.slice(1));
    const count = rows === undefined ? wanted.length : rows * width;
    return verdict(actual.subarray(0, count), wanted.subarray(0, count), absolute, relative);
  }

  /** Leaves a handle to whoever made the memory behind it. */
  forget(both) {
    this.#handles = this.#handles.filter((each) => each !== both);
  }

  /** Lets go of everything that was made. */
  release() {
    for (const { defined, tested } of this.#handles.splice(0)) {
      this.defined.release(defined);
      this.tested.release(tested);
    }
  }
}

/** `error`: norm of the difference over the norm of the wanted; `excess`: beyond the tolerance. */
export function verdict(actual, wanted, absolute, relative) {
  let [squares, reference, excess, at] = [0, 0, actual.length === wanted.length ? 0 : Infinity, -1];
  wanted.forEach((value, i) => {
    const other = actual[i] ?? Number.NaN;
    if (Object.is(value, other) || value === other) {
      if (Number.isFinite(value)) reference += value * value;
      return;
    }
    const difference = Math.abs(other - value);
    const beyond = difference - absolute - relative * Math.abs(value);
    if (!(beyond <= excess)) [excess, at] = [Number.isNaN(beyond) ? Infinity : beyond, i];
    squares += difference * difference;
    reference += value * value;
  });
  const error = reference > 0 ? Math.sqrt(squares / reference) : Math.sqrt(squares);
  const detail = at < 0 ? "" : `[${at}] ${actual[at]}, wanted ${wanted[at]}`;
  return { error, excess, detail };
}

/** What rounding to `format` may add: a value beside a boundary falls to its other side. */
export function formatTolerance(format, own, largest) {
  if (format === "f32") return own;
  if (format === "bf16") return { absolute: own.absolute, relative: own.relative + 2 ** -7 };
  return { absolute: own.absolute + largest / 127 + 1e-6, relative: own.relative + 1e-6 };
}
