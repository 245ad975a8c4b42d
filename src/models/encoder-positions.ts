import { at } from "#tensor";
import type { EncoderSpec } from "./encoder-spec.ts";

/** What an encoder's rows are: texts one behind the other. */
export interface EncoderTexts {
  /** [T]. */
  readonly tokenIds: Int32Array;
  /** [S + 1]: text s owns tokens starts[s] up to starts[s + 1]. */
  readonly starts: Int32Array;
}

/**
 * [T]: the row of the table of positions, or of angles, for each token. RoBERTa counts only tokens
 * that are no padding, from behind the padding's id on.
 */
export function encoderPositions(
  { positions }: Pick<EncoderSpec, "positions">,
  { tokenIds, starts }: EncoderTexts,
): Int32Array {
  const rows = new Int32Array(tokenIds.length);
  const padding = positions.kind === "learned" ? positions.paddingId : null;
  for (let text = 0; text + 1 < starts.length; text++) {
    let next = padding === null ? 0 : padding + 1;
    for (let token = at(starts, text); token < at(starts, text + 1); token++) {
      rows[token] = padding !== null && tokenIds[token] === padding ? padding : next++;
    }
  }
  return rows;
}
