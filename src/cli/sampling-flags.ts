import { SamplingParams } from "#engine";
import { SchemaFlags } from "./flags.ts";

/** Heading in `--help`. */
export const SAMPLING_HEADING =
  "Sampling (the model's generation_config.json replaces these defaults):";

const HIDDEN = [
  ...["detokenize", "extraArgs", "streamInterval", "outputKind", "flatLogprobs"],
  // `--speculative` loads the model with drafts; rows may turn them off.
  "speculative",
];

/** The differences between the commands' sampling flags. */
export interface SamplingFlagOptions {
  /** Default maximum of new tokens. */
  readonly maxTokens: number;
  /** Default if neither flag nor model sets it; for `--help` only. */
  readonly temperature?: number;
  /** Fields without a flag. */
  readonly hidden?: readonly string[];
}

/** Flags of a command that samples tokens. */
export function samplingFlags(options: SamplingFlagOptions): SchemaFlags {
  const { maxTokens, temperature = 1, hidden = [] } = options;
  return new SchemaFlags(SamplingParams, {
    rename: Object.fromEntries([...HIDDEN, ...hidden].map((name) => [name, null])),
    defaults: { maxTokens },
    help: {
      temperature: `0 is greedy; higher values are more random. (default: ${temperature})`,
      n: "Completions per prompt. (default: 1)",
      beamWidth: "Beam search with this many beams, which prints the best. (default: sampling)",
      stop: "String that ends the output; may be repeated.",
      badWords: "Text that must not appear; may be repeated.",
      spacesBetweenSpecialTokens: "Off: no spaces between special tokens in the text.",
      skipReadingPrefixCache:
        "Compute the whole prompt, cached or not. (default: with --prompt-logprobs)",
      structuredOutput:
        'What the output must match, one of {"json": SCHEMA}, {"jsonObject": true}, ' +
        '{"regex": "…"}, {"choice": ["…"]}, {"grammar": "EBNF"}, {"structuralTag": …}.',
      repetitionDetection:
        'End an output that repeats itself: {"patternTokensMax": 8, "count": 4}.',
    },
  });
}
