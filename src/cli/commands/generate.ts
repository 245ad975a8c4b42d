import { writeFile } from "node:fs/promises";
import type { Command } from "commander";
import { EngineError, messageOf } from "#base";
import { writeSafetensors } from "#checkpoint";
import type { GenerateOptions, GenerateResult, LLM, Prompt } from "#engine";
import { addEngineFlags, loadModel } from "../engine-flags.ts";
import { appendText } from "../flag-option.ts";
import { Progress } from "../progress.ts";
import { readPrompts } from "../prompt-source.ts";
import { SAMPLING_HEADING, samplingFlags } from "../sampling-flags.ts";

/** Longer than the API's 16 tokens: somebody reads it. */
const MAX_TOKENS_DEFAULT = 128;

const sampling = samplingFlags({ maxTokens: MAX_TOKENS_DEFAULT });

interface GenerateFlags extends Readonly<Record<string, unknown>> {
  readonly prompt?: string[];
  readonly promptIds?: string[];
  readonly input?: string;
  readonly output?: string;
  readonly json?: boolean;
  readonly logitsOut?: string;
}

/** `perigee generate`. */
export function defineGenerate(command: Command): void {
  command
    .option("-p, --prompt <text>", "Prompt; given again, one more of the batch.", appendText)
    .option("--prompt-ids <n,n,…>", "Prompt as token ids; may be given again.", appendText)
    .option("--input <file>", 'JSON lines with "prompt" or "prompt_token_ids"; - reads a pipe.')
    .option("--output <file>", "Write JSON lines here instead of text to standard output.")
    .option("--json", "Print one JSON object per completion.")
    .option("--logits-out <file>", "Write the prompt's logits as safetensors: f32 [tokens, vocab].")
    .action((model: string | undefined, flags: GenerateFlags) => generate(model, flags));
  sampling.addTo(command, SAMPLING_HEADING);
  addEngineFlags(command);
}

async function generate(model: string | undefined, flags: GenerateFlags): Promise<void> {
  sampling.check(flags);
  const prompts = await readPrompts(flags);
  if (flags.logitsOut !== undefined && prompts.length !== 1) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use --logits-out: wanted one prompt, current value is ${prompts.length}`,
    );
  }
  await using llm = await loadModel({ model, values: flags });
  if (flags.logitsOut !== undefined) await writeLogits(llm, prompts, flags.logitsOut);
  const options = optionsOf(llm, flags);
  const [only] = prompts;
  if (only !== undefined && prompts.length === 1 && isReadAlong(llm, flags)) {
    await showAsItComes(llm, only, options);
    return;
  }
  const results = await generateAll(llm, prompts, options);
  const lines = results.flatMap((result) => render(result, flags)).join("");
  if (flags.output === undefined) process.stdout.write(lines);
  else await writeOutput(flags.output, lines);
}

/** The model's own defaults, then flags; JSON tells how likely the completion was. */
function optionsOf(llm: LLM, flags: GenerateFlags): GenerateOptions {
  return {
    ...llm.defaultSampling,
    ...sampling.collect(flags),
    ...(wantsJson(flags) && flags.logprobs === undefined ? { logprobs: 0 } : {}),
    detokenize: llm.codec !== null,
  };
}

function wantsJson(flags: GenerateFlags): boolean {
  return flags.json === true || flags.output !== undefined;
}

/** One completion that somebody watches. */
function isReadAlong(llm: LLM, flags: GenerateFlags): boolean {
  const single = flags.n === undefined || flags.n === 1;
  return process.stdout.isTTY && single && !wantsJson(flags) && llm.codec !== null;
}

async function showAsItComes(llm: LLM, prompt: Prompt, options: GenerateOptions): Promise<void> {
  for await (const { text } of llm.stream(prompt, options)) process.stdout.write(text ?? "");
  process.stdout.write("\n");
}

/** As one batch; the bar counts finished prompts. */
async function generateAll(
  llm: LLM,
  prompts: readonly Prompt[],
  options: GenerateOptions,
): Promise<GenerateResult[]> {
  const progress = await Progress.start("generating", prompts.length);
  const stopListening = llm.listen({ onRequestEnd: () => progress.advance() });
  try {
    return await llm.generate(prompts, options);
  } finally {
    stopListening();
    progress.stop();
  }
}

async function writeLogits(llm: LLM, prompts: readonly Prompt[], file: string): Promise<void> {
  for (const prompt of prompts) {
    const { logits, rows } = await llm.promptLogits(prompt);
    const shape = [rows, llm.info.vocabularySize];
    const bytes = new Uint8Array(logits.buffer, logits.byteOffset, logits.byteLength);
    writeSafetensors(file, [{ name: "logits", dtype: "f32", shape, bytes }]);
  }
}

/** One text per completion, or one JSON object per line. */
function render(result: GenerateResult, flags: GenerateFlags): string[] {
  return result.completions.map((completion) => {
    if (!wantsJson(flags)) return `${completion.text ?? completion.tokenIds.join(",")}\n`;
    const line = {
      index: completion.index,
      prompt_token_ids: result.promptTokenIds,
      token_ids: completion.tokenIds,
      text: completion.text,
      finish_reason: completion.finishReason,
      stop_reason: completion.stopReason,
      cumulative_logprob: completion.cumulativeLogprob,
      cached_tokens: result.cachedTokens,
      ...(flags.logprobs === undefined ? {} : { logprobs: completion.logprobs }),
      ...(flags.promptLogprobs === undefined ? {} : { prompt_logprobs: result.promptLogprobs }),
    };
    return `${JSON.stringify(line)}\n`;
  });
}

async function writeOutput(file: string, lines: string): Promise<void> {
  try {
    await writeFile(file, lines);
  } catch (cause) {
    throw new EngineError(
      "IO",
      `Cannot write ${file}: wanted a file that can be written, ${messageOf(cause)}`,
      { cause },
    );
  }
}
