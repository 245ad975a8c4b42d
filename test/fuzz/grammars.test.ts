/**
 * Grammars by chance, made to hurt: each is compiled or refused with GRAMMAR_INVALID, and what
 * compiles can be followed or ends by a limit. PERIGEE_FUZZ_GRAMMARS of them, from PERIGEE_FUZZ_SEED.
 */
import { afterAll, expect, test } from "vitest";
import { EngineError } from "#base";
import { GrammarCompiler, GrammarOptions, type StructuredOutput } from "#sampling";
import { allows } from "../../src/sampling/token-mask.ts";
import { sized } from "../support/full.ts";
import { tokenBytesOf } from "../support/token-bytes.ts";
import { Dice } from "./dice.ts";
import { nastyOutput } from "./nasty-grammars.ts";

const count = Number(process.env.PERIGEE_FUZZ_GRAMMARS ?? sized(200, 5_000));
const firstSeed = Number(process.env.PERIGEE_FUZZ_SEED ?? 1);
const stop = 256;
const steps = 12;

const compiler = new GrammarCompiler({
  tokens: tokenBytesOf([...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)), ""]),
  vocabularySize: 257,
  stopTokenIds: [stop],
  options: GrammarOptions.parse({ compileMsMax: 1_000 }),
});
afterAll(() => compiler.dispose());

/** Draws allowed tokens. Ends early where the output does. */
async function follow(output: StructuredOutput, dice: Dice): Promise<void> {
  const grammar = await compiler.compile(output);
  const matcher = await grammar.createMatcher();
  try {
    const mask = new Uint32Array(9);
    for (let step = 0; step < steps && !matcher.isTerminated(); step++) {
      await matcher.fillBitmask(mask);
      const allowed = Array.from({ length: 288 }, (_, id) => id).filter((id) => allows(mask, id));
      expect(allowed.length).toBeGreaterThan(0);
      expect(matcher.accept(dice.pick(allowed) ?? stop)).toBe(true);
    }
  } finally {
    matcher.dispose();
    grammar.dispose();
  }
}

test(
  `${count} nasty grammars from seed ${firstSeed} on end with an output or with their error`,
  async () => {
    const ends = { followed: 0, refused: 0 };
    for (let seed = firstSeed; seed < firstSeed + count; seed++) {
      const dice = new Dice(seed);
      const output = nastyOutput(dice);
      try {
        await follow(output, dice);
        ends.followed++;
      } catch (error) {
        const code = error instanceof EngineError ? error.code : `${error}`;
        expect({ seed, code }).toEqual({ seed, code: "GRAMMAR_INVALID" });
        ends.refused++;
      }
    }
    // Both happen: the generator is neither tame nor all nonsense.
    expect(ends.followed).toBeGreaterThan(count / 10);
    expect(ends.refused).toBeGreaterThan(count / 20);
  },
  8 * 60 * 60 * 1000,
);
