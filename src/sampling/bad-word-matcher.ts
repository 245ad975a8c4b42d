/** Finds the tokens that would complete a forbidden sequence now. */

/** Whether the last tokens of `generated` are all of `sequence` but its last. */
function isComplete(generated: readonly number[], sequence: readonly number[]): boolean {
  const prefix = sequence.length - 1;
  if (generated.length < prefix) return false;
  const start = generated.length - prefix;
  for (let i = 0; i < prefix; i++) if (generated[start + i] !== sequence[i]) return false;
  return true;
}

/** Tokens that must not come next, given what was generated so far. */
export function forbiddenNext(
  generated: readonly number[],
  sequences: readonly (readonly number[])[],
): number[] {
  const last = sequences.filter((sequence) => isComplete(generated, sequence));
  return last.map((sequence) => sequence.at(-1)).filter((token) => token !== undefined);
}
