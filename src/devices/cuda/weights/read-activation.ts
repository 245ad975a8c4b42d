import { type CudaActivation, scaleOffset } from "#devices/cuda/memory";
import { f32FromBf16 } from "#tensor";
import { groupsOf, quantGroupColumns } from "../../reference/quantize.ts";

/**
 * The f32 numbers [rows, columns] of packed rows. `bytes`: the rows in device layout, `rows *
 * rowBytes` of them.
 */
export function readActivation(rows: CudaActivation, bytes: Uint8Array): Float32Array {
  const { format, columns, rowBytes } = rows;
  const out = new Float32Array(rows.rows * columns);
  for (let row = 0; row < rows.rows; row++) {
    const start = bytes.byteOffset + row * rowBytes;
    const values = out.subarray(row * columns, (row + 1) * columns);
    if (format === "f32") values.set(new Float32Array(bytes.buffer, start, columns));
    else if (format === "bf16") widenRow(values, new Uint16Array(bytes.buffer, start, columns));
    else dequantizeRow(values, bytes.buffer, start);
  }
  return out;
}

function widenRow(values: Float32Array, bits: Uint16Array): void {
  bits.forEach((each, i) => {
    values[i] = f32FromBf16(each);
  });
}

function dequantizeRow(values: Float32Array, memory: ArrayBufferLike, start: number): void {
  const quantized = new Int8Array(memory, start, values.length);
  const scalesAt = start + scaleOffset(values.length);
  const scales = new Float32Array(memory, scalesAt, groupsOf(values.length));
  quantized.forEach((each, i) => {
    values[i] = each * (scales[Math.floor(i / quantGroupColumns)] ?? 0);
  });
}
