import type { AdjustLogitsInput, Device, DeviceTensor, SampleInput } from "#devices";
import type { RowEdits, RowMasks, SamplingBatch } from "./sampling-batch.ts";

type HostArray = Float32Array | Int32Array | Uint32Array;

/** A device tensor with a host copy of its contents, so that only changes are written. */
class Mirrored<A extends HostArray> {
  readonly tensor: DeviceTensor;
  /** The data of the next `write`. */
  readonly next: A;
  readonly #device: Device;
  /** The contents of the device tensor; at first zeros. */
  readonly #sent: A;

  constructor(device: Device, tensor: DeviceTensor, next: A, sent: A) {
    this.tensor = tensor;
    this.next = next;
    this.#device = device;
    this.#sent = sent;
  }

  /** Sends the changes among the first `length` elements. */
  write(length: number): void {
    let first = 0;
    while (first < length && this.next[first] === this.#sent[first]) first++;
    if (first === length) return;
    let end = length;
    while (this.next[end - 1] === this.#sent[end - 1]) end--;
    const changed = this.next.subarray(first, end);
    this.#sent.set(changed, first);
    this.#device.write(this.tensor, changed, first);
  }
}

function mirroredF32(device: Device, length: number): Mirrored<Float32Array> {
  const tensor = device.allocate("f32", [length]);
  return new Mirrored(device, tensor, new Float32Array(length), new Float32Array(length));
}

function mirroredI32(device: Device, length: number): Mirrored<Int32Array> {
  const tensor = device.allocate("i32", [length]);
  return new Mirrored(device, tensor, new Int32Array(length), new Int32Array(length));
}

/** Capacity of a mirror. */
export interface MirrorLimits {
  /** R. */
  readonly rowsMax: number;
  /** W. */
  readonly words: number;
  /** Entries of edits, of all rows together. */
  readonly entriesMax: number;
}

/** Entries of `AdjustLogitsInput`. */
interface EntryTensors {
  readonly entryTokens: DeviceTensor;
  readonly entryBias: DeviceTensor;
  readonly entryCounts: DeviceTensor;
}

type SamplingTensors = Pick<
  SampleInput,
  "temperature" | "topK" | "topP" | "minP" | "seeds" | "positions"
>;
type EditTensors = Omit<AdjustLogitsInput, "count" | "out" | "logits">;

/** The sampler's inputs on the device. R rows, W words of a mask. */
export class Mirror {
  readonly #device: Device;
  readonly #rowsMax: number;
  /** Positions and top k: R each, side by side, so that one write sends what changed. */
  readonly #integers: Mirrored<Int32Array>;
  /** Temperatures, top p and min p: R each. */
  readonly #floats: Mirrored<Float32Array>;
  readonly #seeds: Mirrored<Uint32Array>;
  /** Views of these. */
  readonly params: SamplingTensors;
  readonly #starts: DeviceTensor;
  readonly #penalties: readonly [DeviceTensor, DeviceTensor, DeviceTensor];
  readonly #allowed: DeviceTensor;
  readonly #allowedRows: DeviceTensor;
  readonly #entries: EntryTensors;

  constructor(device: Device, { rowsMax, words, entriesMax }: MirrorLimits) {
    this.#device = device;
    this.#rowsMax = rowsMax;
    this.#integers = mirroredI32(device, 2 * rowsMax);
    this.#floats = mirroredF32(device, 3 * rowsMax);
    const seeds = device.allocate("u32", [rowsMax, 2]);
    const [next, sent] = [new Uint32Array(2 * rowsMax), new Uint32Array(2 * rowsMax)];
    this.#seeds = new Mirrored(device, seeds, next, sent);
    this.params = this.#viewParams();
    this.#starts = device.allocate("i32", [rowsMax + 1]);
    const row = (): DeviceTensor => device.allocate("f32", [rowsMax]);
    this.#penalties = [row(), row(), row()];
    this.#allowed = device.allocate("u32", [rowsMax, words]);
    this.#allowedRows = device.allocate("i32", [rowsMax]);
    this.#entries = allocateEntries(device, entriesMax);
  }

  /** Updates the sampling inputs. While the rows stay the same only positions change. */
  writeParams(batch: SamplingBatch): void {
    const { count, positions, topK, temperature, topP, minP, seeds } = batch;
    const rowsMax = this.#rowsMax;
    copyRows(this.#integers.next, [positions, topK], count, rowsMax);
    copyRows(this.#floats.next, [temperature, topP, minP], count, rowsMax);
    this.#seeds.next.set(seeds.subarray(0, 2 * count));
    this.#integers.write(2 * rowsMax);
    this.#floats.write(3 * rowsMax);
    this.#seeds.write(2 * count);
  }

  #viewParams(): SamplingTensors {
    const rowsMax = this.#rowsMax;
    const part = ({ tensor }: { readonly tensor: DeviceTensor }, place: number) =>
      this.#device.rows(tensor, place * rowsMax, (place + 1) * rowsMax);
    return {
      positions: part(this.#integers, 0),
      topK: part(this.#integers, 1),
      temperature: part(this.#floats, 0),
      topP: part(this.#floats, 1),
      minP: part(this.#floats, 2),
      seeds: this.#seeds.tensor,
    };
  }

  /** Sends the edits; returns the op's inputs. Masks are sent only if a row has one. */
  writeEdits(edits: RowEdits): EditTensors {
    const device = this.#device;
    const [repetitionPenalty, frequencyPenalty, presencePenalty] = this.#penalties;
    const entries = this.#entries;
    device.write(this.#starts, edits.starts);
    device.write(repetitionPenalty, edits.repetition);
    device.write(frequencyPenalty, edits.frequency);
    device.write(presencePenalty, edits.presence);
    if (edits.tokens.length > 0) {
      device.write(entries.entryTokens, edits.tokens);
      device.write(entries.entryBias, edits.biases);
      device.write(entries.entryCounts, edits.counts);
    }
    const { entryTokens, entryBias, entryCounts } = entries;
    const masks = edits.masks === null ? {} : this.#writeMasks(edits.masks);
    return {
      entryStarts: this.#starts,
      ...{ entryTokens, entryBias, entryCounts },
      ...{ repetitionPenalty, frequencyPenalty, presencePenalty },
      ...masks,
    };
  }

  #writeMasks({ allowed, rows }: RowMasks): Pick<EditTensors, "allowed" | "allowedRows"> {
    const words = allowed.length / rows.length;
    this.#device.write(this.#allowedRows, rows);
    for (let row = 0; row < rows.length; row++) {
      const start = row * words;
      if (rows[row] === 0) continue;
      this.#device.write(this.#allowed, allowed.subarray(start, start + words), start);
    }
    return { allowed: this.#allowed, allowedRows: this.#allowedRows };
  }

  /** Releases all device memory. */
  dispose(): void {
    const tensors = [
      this.#integers.tensor,
      this.#floats.tensor,
      this.#seeds.tensor,
      ...this.#penalties,
      this.#starts,
      this.#allowed,
      this.#allowedRows,
      ...Object.values(this.#entries),
    ];
    for (const tensor of tensors) this.#device.release(tensor);
  }
}

/** The first `count` values of each array, one array every `stride` elements. */
function copyRows<A extends HostArray>(
  into: A,
  arrays: readonly A[],
  count: number,
  stride: number,
): void {
  arrays.forEach((values, place) => {
    into.set(values.subarray(0, count), place * stride);
  });
}

function allocateEntries(device: Device, capacity: number): EntryTensors {
  return {
    entryTokens: device.allocate("i32", [capacity]),
    entryBias: device.allocate("f32", [capacity]),
    entryCounts: device.allocate("i32", [capacity]),
  };
}
