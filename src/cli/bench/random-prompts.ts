import { philox, seedFrom } from "#base";

/** `count` prompts of `length` random token ids, the same for the same seed. */
export function randomPrompts(
  count: number,
  length: number,
  vocabularySize: number,
  seed: number,
): { readonly promptTokenIds: number[] }[] {
  const key = seedFrom(seed);
  return Array.from({ length: count }, (_, prompt) => ({
    promptTokenIds: Array.from(
      { length },
      (_, position) => philox([position, prompt, 0, 0], key)[0] % vocabularySize,
    ),
  }));
}
