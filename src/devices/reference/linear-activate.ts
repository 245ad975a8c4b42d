import type { LinearActivateInput } from "../ops.ts";
import { activate } from "./activate.ts";
import { linear } from "./linear.ts";

/** out = act(y), or act(gate) * up: y is the f32 result of a linear. */
export function linearActivate(input: LinearActivateInput): void {
  const { count, kind, out, x, weight, bias, gated, scratch } = input;
  linear({ count, out: scratch, x, weight, ...(bias !== undefined && { bias }) });
  activate({ count, kind, out, x: scratch, gated });
}
