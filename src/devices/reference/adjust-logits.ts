import { at } from "#tensor";
import type { AdjustLogitsInput } from "../ops.ts";
import { f32, f32Rows, i32, u32 } from "./host-tensor.ts";

/** Penalties of one row. */
interface Penalties {
  readonly repetition: number;
  readonly frequency: number;
  readonly presence: number;
}

/**
 * Per row: logits of tokens that are not allowed become -Infinity; then for each entry the bias is
 * added, and the logit of a seen token is penalised. Sources: Keskar et al. 2019, "CTRL"
 * (repetition); OpenAI's API (frequency, presence).
 */
export function adjustLogits(input: AdjustLogitsInput): void {
  const logits = f32Rows(input.logits);
  const out = f32Rows(input.out);
  const starts = i32(input.entryStarts);
  for (let r = 0; r < input.count; r++) {
    out.store(r, logits.row(r));
    const row = out.row(r);
    maskRow(input, r, row);
    const penalties = {
      repetition: at(f32(input.repetitionPenalty), r),
      frequency: at(f32(input.frequencyPenalty), r),
      presence: at(f32(input.presencePenalty), r),
    };
    for (let entry = at(starts, r); entry < at(starts, r + 1); entry++) {
      const token = at(i32(input.entryTokens), entry);
      const biased = at(row, token) + at(f32(input.entryBias), entry);
      row[token] = penalized(biased, at(i32(input.entryCounts), entry), penalties);
    }
  }
}

function maskRow(input: AdjustLogitsInput, r: number, row: Float32Array): void {
  const { allowed, allowedRows } = input;
  if (allowed === undefined || allowedRows === undefined || at(i32(allowedRows), r) === 0) return;
  const bits = u32(allowed);
  const words = Math.ceil(row.length / 32);
  row.forEach((_, token) => {
    const word = at(bits, r * words + (token >>> 5));
    if (((word >>> (token & 31)) & 1) === 0) row[token] = Number.NEGATIVE_INFINITY;
  });
}

/** `count`: times generated; -1: in the prompt only; 0: never seen. */
function penalized(logit: number, count: number, penalties: Penalties): number {
  if (count === 0) return logit;
  const { repetition, frequency, presence } = penalties;
  const repeated = logit > 0 ? logit / repetition : logit * repetition;
  return count < 0 ? repeated : repeated - frequency * count - presence;
}
