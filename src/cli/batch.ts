/** Many prompts at once: results in the order of the prompts, each written as soon as it can be. */
import { assert, EngineError, type ErrorCode, messageOf } from "#base";
import { type GenerateOptions, type GenerateResult, type LLM, sequencesOf } from "#engine";
import { Interrupted } from "./interruption.ts";
import { Progress } from "./progress.ts";
import type { PromptRow } from "./prompt-row.ts";
import { InOrder, type ResultOutput } from "./result-output.ts";

/** A prompt with all its options; they share one signal. */
export interface ReadyRow extends PromptRow {
  readonly options: GenerateOptions;
}

export interface BatchOptions {
  readonly output: ResultOutput;
  /** JSON objects instead of text. */
  readonly json: boolean;
  /** Most sequences in the engine at a time. */
  readonly sequencesMax: number;
  /** A failure as the command line's user reads it. */
  readonly inWords: (thrown: unknown) => unknown;
  /** Hears of prompts that failed where results are text. */
  readonly warn: (message: string) => void;
  /** Off where results go to the same terminal. */
  readonly showProgress: boolean;
}

/** What one prompt of many may be refused for while the others go on. */
const OWN_FAILURES: ReadonlySet<ErrorCode> = new Set([
  "INVALID_ARGUMENT",
  "PROMPT_TOO_LONG",
  "GRAMMAR_INVALID",
  "ENGINE_STEP_FAILED",
]);

/** All prompts had their turn, and these failed; each was told of where its result would stand. */
export class PromptsFailed extends Error {
  override readonly name = "PromptsFailed";

  constructor(failed: number, all: number) {
    super(`Cannot generate all prompts: ${failed} of ${all} failed; see their errors`);
  }
}

/**
 * Generates all rows. However it ends, what is finished has been written: throws Interrupted once
 * the rows' signal is aborted, PromptsFailed where some of many could not be generated, and at once
 * what fails all.
 */
export async function generateBatch(
  llm: LLM,
  rows: readonly ReadyRow[],
  { output, json, sequencesMax, showProgress, inWords, warn }: BatchOptions,
): Promise<void> {
  const lines = new InOrder((text) => output.write(text));
  const progress = await Progress.start("generating", showProgress ? rows.length : 0);
  let finished = 0;
  let failed = 0;
  const fail = (place: number, thrown: unknown): void => {
    const isOwn = thrown instanceof EngineError && OWN_FAILURES.has(thrown.code);
    if (!isOwn || isAlone(rows)) throw thrown;
    failed += 1;
    const { code, message } = thrown;
    lines.add(place, json ? errorLine(place, { code, message }) : "");
    if (!json) warn(message);
  };
  const run = async (place: number, row: ReadyRow, signal: AbortSignal): Promise<void> => {
    const { options } = row;
    // JSON tells how likely a completion is: the sum of what its tokens are. Beams know theirs.
    const isDrawn = options.beamWidth === undefined || options.beamWidth === null;
    const logprobs = json && isDrawn ? { logprobs: options.logprobs ?? 0 } : {};
    try {
      const result = await generateRow(llm, row, { ...options, ...logprobs, signal });
      lines.add(place, json ? jsonLines(result, place, options) : textLines(result));
      finished += 1;
    } catch (thrown) {
      fail(place, inWords(thrown));
    }
    progress.advance();
  };
  try {
    await runAll(rows, windowOf(rows, sequencesMax), run);
  } catch (thrown) {
    if (rows[0]?.options.signal?.aborted !== true) throw thrown;
    throw new Interrupted(`${finished} of ${rows.length} prompts are finished`);
  } finally {
    progress.stop();
    lines.flush();
  }
  if (failed > 0) throw new PromptsFailed(failed, rows.length);
}

/** One prompt of the command line, not one of a file that happens to have one. */
function isAlone(rows: readonly ReadyRow[]): boolean {
  return rows.length === 1 && rows[0]?.place === null;
}

/** In place of a prompt's completions. */
function errorLine(
  promptIndex: number,
  error: { readonly code: ErrorCode; readonly message: string },
): string {
  return `${JSON.stringify({ prompt_index: promptIndex, error })}\n`;
}

/** How many rows may run at a time, with as many sequences as the hungriest wants. */
function windowOf(rows: readonly ReadyRow[], sequencesMax: number): number {
  const most = rows.reduce((max, { options }) => Math.max(max, sequencesOf(options)), 1);
  return Math.max(1, Math.floor(sequencesMax / most));
}

/** At most `window` rows at a time, from first to last. A failure cancels the others. */
async function runAll(
  rows: readonly ReadyRow[],
  window: number,
  run: (place: number, row: ReadyRow, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const queue = rows.entries();
  const runner = async (): Promise<void> => {
    // All runners draw from one iterator.
    for (const [place, row] of queue) {
      const { signal = stop.signal } = row.options;
      await run(place, row, AbortSignal.any([stop.signal, signal]));
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(window, rows.length) }, runner));
  } catch (thrown) {
    stop.abort(thrown);
    throw thrown;
  }
}

/** Failures name the line that the prompt stands in. */
async function generateRow(
  llm: LLM,
  { prompt, place }: ReadyRow,
  options: GenerateOptions,
): Promise<GenerateResult> {
  try {
    const [result] = await llm.generate(prompt, options);
    assert(result !== undefined, "one prompt has one result");
    return result;
  } catch (cause) {
    if (!(cause instanceof EngineError) || place === null) throw cause;
    const { code, param } = cause;
    const message = `${messageOf(cause)} (${place})`;
    throw new EngineError(code, message, { cause, ...(param === null ? {} : { param }) });
  }
}

function textLines({ completions }: GenerateResult): string {
  return completions.map(({ text, tokenIds }) => `${text ?? tokenIds.join(",")}\n`).join("");
}

/** One object per completion, beams best first; log-probabilities where they were asked for. */
function jsonLines(result: GenerateResult, promptIndex: number, options: GenerateOptions): string {
  const lines = result.completions.map((completion) => ({
    prompt_index: promptIndex,
    index: completion.index,
    prompt_token_ids: result.promptTokenIds,
    token_ids: completion.tokenIds,
    text: completion.text,
    finish_reason: completion.finishReason,
    stop_reason: completion.stopReason,
    cumulative_logprob: completion.cumulativeLogprob,
    ...(completion.score === null ? {} : { score: completion.score }),
    cached_tokens: result.cachedTokens,
    ...(isAsked(options.logprobs) ? { logprobs: completion.logprobs } : {}),
    ...(isAsked(options.promptLogprobs) ? { prompt_logprobs: result.promptLogprobs } : {}),
  }));
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

function isAsked(count: number | null | undefined): boolean {
  return count !== undefined && count !== null;
}
