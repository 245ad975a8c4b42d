/** Folders with quantised modules, made of recordings or by hand. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inflateRawSync } from "node:zlib";
import { scratchFolder } from "./scratch-folder.ts";

/** A tensor of a safetensors file, of any of its types. */
export interface RawTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** A module of training/recordings/quantized_modules.py. */
export interface RecordedModule {
  readonly config: Readonly<Record<string, unknown>>;
  /** By their names within the module. */
  readonly tensors: Readonly<Record<string, RawTensor>>;
  readonly shape: readonly number[];
  /** The matrix that they mean. */
  readonly values: Float32Array;
}

interface Recording {
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: Readonly<
    Record<string, { dtype: string; shape: readonly number[]; data: string }>
  >;
  readonly shape: readonly number[];
  readonly values: string;
}

const recordings: Readonly<Record<string, Recording>> = JSON.parse(
  readFileSync("test/fixtures/quantized.json", "utf8"),
).cases;

/** All of them, by name. */
export const RECORDED_MODULES: ReadonlyMap<string, RecordedModule> = new Map(
  Object.entries(recordings).map(([name, recording]) => {
    const tensors = Object.entries(recording.tensors).map(([part, { data, ...rest }]) => [
      part,
      { ...rest, bytes: inflated(data) },
    ]);
    const values = new Float32Array(inflated(recording.values).buffer);
    return [name, { ...recording, tensors: Object.fromEntries(tensors), values }];
  }),
);

/** The recording of this name, which must exist. */
export function recordedModule(name: string): RecordedModule {
  const found = RECORDED_MODULES.get(name);
  if (found === undefined) throw new Error(`no recording ${name}`);
  return found;
}

/** The module's name in folders of these tests. */
export const MODULE = "model.layers.0.mlp.down_proj";

/** A folder with one module, and a norm that is not quantised. Returns its path. */
export function quantizedFolder(
  quantization: unknown,
  parts: Readonly<Record<string, RawTensor>>,
  config: object = { model_type: "llama" },
): string {
  const folder = scratchFolder();
  const quantized = { ...config, quantization_config: quantization };
  writeFileSync(join(folder, "config.json"), JSON.stringify(quantized));
  const named = Object.entries(parts).map(([part, raw]) => [`${MODULE}.${part}`, raw] as const);
  const norm = { dtype: "F32", shape: [2], bytes: new Uint8Array(8) };
  const tensors = new Map([...named, ["model.norm.weight", norm] as const]);
  writeFileSync(join(folder, "model.safetensors"), safetensorsOf(tensors));
  return folder;
}

/** The bytes of a safetensors file with these tensors. */
export function safetensorsOf(tensors: ReadonlyMap<string, RawTensor>): Uint8Array {
  const header: Record<string, unknown> = {};
  let end = 0;
  for (const [name, { dtype, shape, bytes }] of tensors) {
    header[name] = { dtype, shape, data_offsets: [end, end + bytes.length] };
    end += bytes.length;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const all = [...tensors.values()].map(({ bytes }) => bytes);
  // A copy: a Buffer's own slices are views of it.
  return new Uint8Array(Buffer.concat([length, text, ...all]));
}

function inflated(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(inflateRawSync(Buffer.from(text, "base64")));
}
