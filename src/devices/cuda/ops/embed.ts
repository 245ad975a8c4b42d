import { KernelParams, PACKED_ROWS, ROW_THREADS } from "#devices/cuda/kernels";
import { asPackedRows, type CudaTensor, matrixOf, tensorOf, vectorOf } from "#devices/cuda/memory";
import type { DeviceTensor } from "../../device-data.ts";
import type { EmbedInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams([
  ...PACKED_ROWS,
  ...(["pointer", "pointer", "i32", "i32", "f32", "i32"] as const),
]);

/** Calls the kernel with `EmbedParams` (native/cuda/embed.cu). */
export function embed({ kernels, launcher }: CudaContext, input: EmbedInput): void {
  const { count, table } = input;
  const source = "dtype" in table ? rowsOf(table) : matrixOf(table);
  const packed = "params" in source ? source.params : asPackedRows(source);
  const out = tensorOf(input.out, "f32", count, source.columns);
  params.fill(
    ...packed,
    out.address,
    vectorOf(input.ids, "i32", count),
    source.rows,
    input.offset ?? 0,
    input.scale ?? 1,
    input.accumulate === true ? 1 : 0,
  );
  launcher.launch(kernels.embed, { grid: [count], threads: ROW_THREADS }, params);
}

/** The f32 tensor behind a handle, with as many rows as it has. */
function rowsOf(table: DeviceTensor): CudaTensor {
  const [rows = 1, columns = 1] = table.shape;
  return tensorOf(table, "f32", rows, columns);
}
