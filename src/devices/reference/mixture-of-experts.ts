import { assert } from "#base";
import { addScaled, at, softmax } from "#tensor";
import type { MixtureOfExpertsInput } from "../ops.ts";
import { activateRow } from "./activate.ts";
import { f32Rows } from "./host-tensor.ts";
import { multiplyRow } from "./linear.ts";
import { PackedRows, packedRows } from "./packed-rows.ts";

/** An expert and its routing weight. */
interface Choice {
  readonly expert: number;
  readonly weight: number;
}

/**
 * Weighted sum of the chosen experts' outputs for each token. The intermediate activation is
 * rounded to the experts' format, as between two `linear`. Source: Shazeer et al. 2017,
 * "Outrageously large neural networks".
 */
export function mixtureOfExperts(input: MixtureOfExpertsInput): void {
  const x = packedRows(input.x);
  const out = f32Rows(input.out);
  const routerLogits = f32Rows(input.routerLogits, input.gateUp.length);
  for (let t = 0; t < input.count; t++) {
    const outRow = out.row(t);
    const sum = new Float64Array(outRow.length);
    for (const { expert, weight } of chooseExperts(routerLogits.row(t), input)) {
      addScaled(sum, applyExpert(input, expert, x, t), weight);
    }
    outRow.forEach((kept, i) => {
      outRow[i] = (input.accumulate === true ? kept : 0) + at(sum, i);
    });
  }
}

/** The experts with the largest router logits; equal ones by rising number. */
function chooseExperts(logits: Float32Array, input: MixtureOfExpertsInput): Choice[] {
  const chosen = Array.from(softmax(logits), (weight, expert) => ({ expert, weight }))
    .sort((a, b) => b.weight - a.weight || a.expert - b.expert)
    .slice(0, input.expertsPerToken);
  if (!input.normalize) return chosen;
  const total = chosen.reduce((sum, choice) => sum + choice.weight, 0);
  return chosen.map(({ expert, weight }) => ({ expert, weight: weight / total }));
}

/** [E]: down(act(gate x) * up x) of one token. */
function applyExpert(
  input: MixtureOfExpertsInput,
  expert: number,
  x: PackedRows,
  row: number,
): Float32Array {
  const gateUp = input.gateUp[expert];
  const down = input.down[expert];
  assert(
    gateUp !== undefined && down !== undefined,
    `Cannot run expert ${expert}: it does not exist`,
  );
  const hidden = Float32Array.from(multiplyRow(packedRows(gateUp), x, row));
  const rounded = PackedRows.allocate(x.format, 1, down.columns);
  rounded.store(0, activateRow(input.kind, hidden, true));
  return Float32Array.from(multiplyRow(packedRows(down), rounded, 0));
}
