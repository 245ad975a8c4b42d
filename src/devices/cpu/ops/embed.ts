import type { DeviceTensor } from "../../device-data.ts";
import type { EmbedInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { CpuMatrix, type CpuTensor, matrixOf, tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

/** The table is a plain f32 tensor, not a packed matrix. */
const PLAIN = -1;

const params = new Params(11);

/** Calls the kernel with `EmbedParams` (native/cpu/embed.cpp). */
export function embed({ kernels, pool }: CpuContext, input: EmbedInput): void {
  const { count, table } = input;
  const source = "dtype" in table ? rowsOf(table) : matrixOf(table);
  const out = tensorOf(input.out, "f32", count, source.columns);
  kernels.embed(
    params.fill(
      pool,
      out.address,
      vectorOf(input.ids, "i32", count),
      source.address,
      source instanceof CpuMatrix ? source.formatCode : PLAIN,
      count,
      source.rows,
      source.columns,
      input.scale ?? 1,
      input.offset ?? 0,
      input.accumulate === true ? 1 : 0,
    ),
  );
}

/** The f32 tensor behind a handle, with as many rows as it has. */
function rowsOf(table: DeviceTensor): CpuTensor {
  const [rows = 1, columns = 1] = table.shape;
  return tensorOf(table, "f32", rows, columns);
}
