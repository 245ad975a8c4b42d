import type { LinearActivateInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { activate } from "./activate.ts";
import { linear } from "./linear.ts";

/** Two ops in a row: the GEMM's result for a step's rows stays in the CPU's cache between them. */
export function linearActivate(context: CpuContext, input: LinearActivateInput): void {
  const { count, kind, out, x, weight, bias, gated, scratch } = input;
  linear(context, { count, out: scratch, x, weight, ...(bias !== undefined && { bias }) });
  activate(context, { count, kind, out, x: scratch, gated });
}
