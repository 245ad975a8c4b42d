import type { LinearActivateInput } from "../../ops.ts";
import type { CudaContext } from "../context.ts";
import { activate } from "./activate.ts";
import { linear } from "./linear.ts";

/** The product as f32, then its activation. */
export function linearActivate(context: CudaContext, input: LinearActivateInput): void {
  const { count, kind, out, x, weight, bias, gated, scratch } = input;
  linear(context, { count, out: scratch, x, weight, ...(bias !== undefined && { bias }) });
  activate(context, { count, kind, out, x: scratch, gated });
}
