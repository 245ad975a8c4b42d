/** Sampling options that carry their parsed parameters: they are parsed once on their way. */

import { issueText } from "#base";
import { type SamplingOptions, SamplingParams } from "./sampling-params.ts";

/** Copies of the options keep this field, and no other file can write it. */
const PARSED = Symbol("parsed sampling options");

/** The error of options that do not parse. */
type Refusal = NonNullable<ReturnType<typeof SamplingParams.safeParse>["error"]>;

interface Parsed {
  readonly options: SamplingOptions;
  readonly params: SamplingParams;
}

/** Parses options. Right ones come back as a copy that carries the parsed parameters. */
export function parseOptions<Options extends SamplingOptions>(
  options: Options,
): { readonly options: Options } | { readonly error: Refusal } {
  const result = SamplingParams.safeParse(options, { error: issueText });
  if (!result.success) return { error: result.error };
  const parsed: Parsed = { options, params: result.data };
  return { options: { ...options, [PARSED]: parsed } };
}

/**
 * The parameters that these options were parsed to; null: they were not parsed, or a field has
 * another value since. Options may have no other fields than those of sampling.
 */
export function paramsOf(
  options: SamplingOptions & { readonly [PARSED]?: Parsed },
): SamplingParams | null {
  const { [PARSED]: parsed } = options;
  if (parsed === undefined) return null;
  const now = new Map(Object.entries(options));
  const then = Object.entries(parsed.options);
  const isSame = then.length === now.size && then.every(([name, value]) => now.get(name) === value);
  return isSame ? parsed.params : null;
}
