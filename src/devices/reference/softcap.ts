import type { SoftcapInput } from "../ops.ts";
import { f32Rows } from "./host-tensor.ts";

/** x = cap * tanh(x / cap). Source: Gemma Team 2024, "Gemma 2". */
export function softcap(input: SoftcapInput): void {
  const x = f32Rows(input.x);
  for (let r = 0; r < input.count; r++) {
    const row = x.row(r);
    row.forEach((value, i) => {
      row[i] = input.cap * Math.tanh(value / input.cap);
    });
  }
}
