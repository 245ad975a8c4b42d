import { createHash } from "node:crypto";
import { EngineError } from "#base";
import type { Device, DeviceTensor, WeightFormat, WeightMatrix, WeightSource } from "#devices";
import { bytesOf, decodeFloats } from "#tensor";
import type { DecoderModel } from "../architecture.ts";
import { type LinearWeights, WeightLoader, type WeightSupply } from "../weight-loader.ts";
import { type DrafterFiles, tokenMapOf } from "./drafter-files.ts";
import type { ReDrafterSpec } from "./redrafter-spec.ts";

/** All weights of a ReDrafter on a device. Letters: `ReDrafterSpec`. */
export interface ReDrafterWeights {
  readonly format: WeightFormat;
  /** [H, 2 H] and [H]: the next state from an embedding and the state before it; null: a sum. */
  readonly recurrence: LinearWeights | null;
  /** [X, 2 H]; null: the head's input is as wide as its rows. */
  readonly projection: LinearWeights | null;
  /** [X, X] and [X] each. */
  readonly blocks: readonly LinearWeights[];
  /** [draft vocabulary, X]. */
  readonly head: WeightMatrix;
  /** [draft vocabulary] i32: the base's token of each drafted one; null: the same. */
  readonly tokenMap: DeviceTensor | null;
  readonly parameters: number;
}

/** Names that other writers give to modules: TensorRT-LLM's converter accepts the same. */
const ALIASES: readonly (readonly [string, readonly string[]])[] = [
  ["lm_head.", ["lm_heads.", "0."]],
  ["input_proj.", ["input_projs.", "input_projs.0."]],
];

/**
 * Packs a ReDrafter's weights in `format`. Source: apple/ml-recurrent-drafter's checkpoints.
 * Throws CHECKPOINT_INVALID, which names the tensor, and OUT_OF_MEMORY.
 */
export function loadReDrafterWeights(
  device: Device,
  spec: ReDrafterSpec,
  { files, format }: { readonly files: DrafterFiles; readonly format: WeightFormat },
): ReDrafterWeights {
  const { hiddenSize, exitSize, blocks, draftVocabularySize, recurrent } = spec;
  const sources = joinedRecurrence(aliased(files.tensors), hiddenSize);
  const loader = new WeightLoader(device, "", { sources, format });
  const linear = (module: string, rows: number, columns: number, bias = true): LinearWeights =>
    loader.linear({ modules: [module], bias }, { rows: [rows], columns }, format);
  const recurrence = recurrent ? linear(RECURRENCE, hiddenSize, 2 * hiddenSize) : null;
  const projection =
    exitSize === 2 * hiddenSize ? null : linear("input_proj", exitSize, 2 * hiddenSize);
  const residual = Array.from({ length: blocks }, (_, block) =>
    linear(`lm_head.${block}.linear`, exitSize, exitSize),
  );
  const head = linear(`lm_head.${blocks}`, draftVocabularySize, exitSize, false).weight;
  const map = tokenMapOf(spec, files);
  let tokenMap: DeviceTensor | null = null;
  if (map !== null) {
    tokenMap = device.allocate("i32", [map.length]);
    device.write(tokenMap, map);
  }
  const { parameters } = loader;
  return { format, recurrence, projection, blocks: residual, head, tokenMap, parameters };
}

function aliased(sources: WeightSupply): WeightSupply {
  return {
    size: sources.size,
    get: (name, shape) => {
      for (const candidate of [name, ...aliasesOf(name)]) {
        const found = sources.get(candidate, shape);
        if (found !== undefined) return found;
      }
      return undefined;
    },
  };
}

function aliasesOf(name: string): string[] {
  return ALIASES.flatMap(([prefix, others]) =>
    name.startsWith(prefix) ? others.map((other) => other + name.slice(prefix.length)) : [],
  );
}

/** Both matrices of the recurrence as one, so that a level has one GEMM for them. */
const RECURRENCE = "rnn";

/** Adds the joined recurrence: [W | U], and the bias of U. */
function joinedRecurrence(sources: WeightSupply, hiddenSize: number): WeightSupply {
  return {
    size: sources.size,
    get: (name, shape) => {
      if (name === `${RECURRENCE}.bias`) return sources.get("rnn_u.bias", shape);
      if (name !== `${RECURRENCE}.weight`) return sources.get(name, shape);
      const square = [hiddenSize, hiddenSize];
      const embedding = sources.get("rnn_w.weight", square);
      const state = sources.get("rnn_u.weight", square);
      if (embedding === undefined || state === undefined) return undefined;
      return beside(embedding, state);
    },
  };
}

/** Columns of the left matrix, then those of the right one; equal types and shapes. */
function beside(left: WeightSource, right: WeightSource): WeightSource {
  const { dtype, shape } = left;
  const [rows = 0, columns = 0] = shape;
  const isSame = dtype === right.dtype && right.shape.every((extent, at) => extent === shape[at]);
  if (!isSame || shape.length !== right.shape.length) {
    throw new EngineError(
      "CHECKPOINT_INVALID",
      `Cannot load ${right.name}: its type and shape must be those of ${left.name}, ${dtype} ` +
        `[${shape.join(", ")}], current value is ${right.dtype} [${right.shape.join(", ")}]`,
      { param: right.name },
    );
  }
  return {
    name: `${left.name} and ${right.name}`,
    dtype,
    shape: [rows, 2 * columns],
    bytes: () => {
      const rowBytes = columns * bytesOf(dtype);
      const joined = new Uint8Array(2 * rows * rowBytes);
      for (const [side, source] of [left, right].entries()) {
        const bytes = source.bytes();
        for (let row = 0; row < rows; row++) {
          const part = bytes.subarray(row * rowBytes, (row + 1) * rowBytes);
          joined.set(part, (2 * row + side) * rowBytes);
        }
      }
      return joined;
    },
    discard: () => {
      left.discard();
      right.discard();
    },
  };
}

/**
 * Identifies a base to its drafters, whatever its files' format: the SHA-256 of the final norm's
 * weights as little-endian f32, in hexadecimal. Null: the checkpoint has no such tensor.
 */
export function baseFingerprint(
  { spec, names }: DecoderModel,
  sources: WeightSupply,
): string | null {
  const name = `${names.finalNorm}.weight`;
  const shape = [spec.hiddenSize];
  const bare = name.startsWith(names.optionalPrefix)
    ? name.slice(names.optionalPrefix.length)
    : name;
  const source = sources.get(name, shape) ?? sources.get(bare, shape);
  if (source === undefined) return null;
  const values = decodeFloats(source.bytes(), source.dtype);
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return createHash("sha256").update(bytes).digest("hex");
}
