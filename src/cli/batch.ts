/** Many prompts at once: results in prompt order, each written as early as that order permits. */
import { assert, EngineError, type ErrorCode, messageOf } from "#base";
import { type GenerateOptions, type GenerateResult, type LLM, sequencesOf } from "#engine";
import { Interrupted } from "./interruption.ts";
import { Progress } from "./progress.ts";
import type { InputRow, PromptRow } from "./prompt-row.ts";
import { InOrder, type ResultOutput } from "./result-output.ts";

export interface BatchOptions {
  /** All options of a row except its signal. */
  readonly optionsOf: (row: PromptRow) => GenerateOptions;
  /** Ends the whole batch. */
  readonly signal: AbortSignal;
  readonly output: ResultOutput;
  /** JSON objects instead of text. */
  readonly json: boolean;
  /** Maximum number of sequences in the engine at a time. */
  readonly sequencesMax: number;
  /** Converts a failure for the command line's user. */
  readonly inWords: (thrown: unknown) => unknown;
  /** Receives messages of failed prompts if results are text. */
  readonly warn: (message: string) => void;
  /** Off if results go to the same terminal. */
  readonly showProgress: boolean;
}

/** Failures that end the whole batch, because later rows would fail alike; others fail one row. */
const SHARED_FAILURES: ReadonlySet<ErrorCode> = new Set([
  "DEVICE_FAILED",
  "ENGINE_DEAD",
  "SHUTTING_DOWN",
  "ABORTED",
]);

/** All prompts were processed, and some failed; each error was reported in place of its result. */
export class PromptsFailed extends Error {
  override readonly name = "PromptsFailed";

  constructor(failed: number, all: number) {
    super(`Cannot generate all prompts: ${failed} of ${all} failed; see their errors`);
  }
}

/**
 * Generates all rows. In any case, finished results have been written. Throws Interrupted once the
 * signal is aborted, PromptsFailed if some of several rows failed, and at once a failure that
 * affects all rows.
 */
export async function generateBatch(
  llm: LLM,
  rows: readonly InputRow[],
  options: BatchOptions,
): Promise<void> {
  const { output, showProgress, signal } = options;
  const lines = new InOrder((text) => output.write(text));
  const progress = await Progress.start("generating", showProgress ? rows.length : 0);
  let finished = 0;
  const run = async (place: number, row: InputRow, stop: AbortSignal): Promise<void> => {
    const { text, failure } = await resultOf(llm, row, { ...options, place, rows, signal: stop });
    if (failure === null) finished += 1;
    else if (!options.json) options.warn(failure);
    lines.add(place, text);
    progress.advance();
  };
  try {
    await runAll(rows, windowOf(rows, options), { run, signal });
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
    throw new Interrupted(`${finished} of ${rows.length} prompts are finished`);
  } finally {
    progress.stop();
    lines.flush();
  }
  if (finished < rows.length) throw new PromptsFailed(rows.length - finished, rows.length);
}

interface RowRun extends BatchOptions {
  readonly rows: readonly InputRow[];
  /** The row's index in `rows`. */
  readonly place: number;
}

/** The text to write for a row, and its failure message. Throws failures that affect all rows. */
async function resultOf(
  llm: LLM,
  row: InputRow,
  { optionsOf, signal, json, inWords, rows, place }: RowRun,
): Promise<{ readonly text: string; readonly failure: string | null }> {
  const failed = (code: ErrorCode, message: string) => ({
    text: json ? errorLine(place, { code, message }) : "",
    failure: message,
  });
  if ("refused" in row) return failed(row.refused.code, row.refused.message);
  const options = optionsOf(row);
  // JSON reports each completion's cumulative log-probability; beams have it without this option.
  const isSampled = options.beamWidth === undefined || options.beamWidth === null;
  const logprobs = json && isSampled ? { logprobs: options.logprobs ?? 0 } : {};
  try {
    const result = await generateRow(llm, row, { ...options, ...logprobs, signal });
    return { text: json ? jsonLines(result, place, options) : textLines(result), failure: null };
  } catch (error) {
    const thrown = inWords(error);
    const isOwn = thrown instanceof EngineError && !SHARED_FAILURES.has(thrown.code);
    if (!isOwn || isAlone(rows)) throw thrown;
    return failed(thrown.code, thrown.message);
  }
}

/** Whether there is one prompt, from the command line, not from a file that happens to have one. */
function isAlone(rows: readonly InputRow[]): boolean {
  return rows.length === 1 && rows[0]?.place === null;
}

/** The JSON line in place of a prompt's completions. */
function errorLine(
  promptIndex: number,
  error: { readonly code: ErrorCode; readonly message: string },
): string {
  return `${JSON.stringify({ prompt_index: promptIndex, error })}\n`;
}

/** The number of rows that may run at a time, sized for the row with the most sequences. */
function windowOf(
  rows: readonly InputRow[],
  { sequencesMax, optionsOf }: Pick<BatchOptions, "sequencesMax" | "optionsOf">,
): number {
  let most = 1;
  for (const row of rows) {
    if (!("refused" in row)) most = Math.max(most, sequencesOf(optionsOf(row)));
  }
  return Math.max(1, Math.floor(sequencesMax / most));
}

interface Runner {
  readonly run: (place: number, row: InputRow, signal: AbortSignal) => Promise<void>;
  readonly signal: AbortSignal;
}

/** At most `window` rows at a time, from first to last. A failure cancels the others. */
async function runAll(
  rows: readonly InputRow[],
  window: number,
  { run, signal }: Runner,
): Promise<void> {
  const stop = new AbortController();
  // Not AbortSignal.any: Node 20 may collect such a signal while it is awaited.
  const onAbort = () => stop.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const queue = rows.entries();
  const runner = async (): Promise<void> => {
    // All runners share one iterator.
    for (const [place, row] of queue) {
      stop.signal.throwIfAborted();
      await run(place, row, stop.signal);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(window, rows.length) }, runner));
  } catch (thrown) {
    stop.abort(thrown);
    throw thrown;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Generates one row. Failures name the prompt's line. */
async function generateRow(
  llm: LLM,
  { prompt, place }: PromptRow,
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

/** One object per completion, beams best first; log-probabilities if requested. */
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
    ...(completion.drafts === undefined
      ? {}
      : {
          drafted_tokens: completion.drafts.drafted,
          accepted_tokens: completion.drafts.accepted,
        }),
    ...(isAsked(options.logprobs) ? { logprobs: completion.logprobs } : {}),
    ...(isAsked(options.promptLogprobs) ? { prompt_logprobs: result.promptLogprobs } : {}),
  }));
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

function isAsked(count: number | null | undefined): boolean {
  return count !== undefined && count !== null;
}
