import type { ConvertInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { activationOf, tensorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(6);

/** Calls the kernel with `ConvertParams` (native/cpu/convert.cpp). */
export function convert({ kernels, pool }: CpuContext, input: ConvertInput): void {
  const { count } = input;
  const { columns } = input.out;
  const out = activationOf(input.out, count, columns);
  const x = tensorOf(input.x, "f32", count, columns);
  kernels.convert(params.fill(pool, out.address, out.formatCode, x.address, count, columns));
}
