import { createReadStream } from "node:fs";
import { open, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import type { Command } from "commander";
import { EngineError } from "#base";
import { writeSafetensors } from "#checkpoint";
import { type GenerateResult, type LLM, type Prompt, SamplingParams } from "#engine";
import { addEngineFlags, loadModel } from "../engine-flags.ts";
import { SchemaFlags } from "../flags.ts";
import { Progress } from "../progress.ts";

const samplingFlags = new SchemaFlags(SamplingParams, {
  rename: { structuredOutput: "structured-output", detokenize: null, logitBias: "logit-bias" },
});

interface GenerateFlags extends Record<string, unknown> {
  readonly prompt?: string[];
  readonly promptIds?: string[];
  readonly input?: string;
  readonly output?: string;
  readonly json?: boolean;
  readonly logitsOut?: string;
  readonly stream?: boolean;
}

export function addGenerateCommand(root: Command): void {
  const command = root
    .command("generate")
    .description("Continue prompts and print the completions.")
    .argument("[model]", "a directory, a .gguf file or a Hugging Face id; default: bundled model")
    .option("-p, --prompt <text...>", "prompt text; several make a batch")
    .option("--prompt-ids <ids...>", "prompt as token ids: 1,2,3")
    .option("--input <file>", "JSON lines with prompt or prompt_token_ids, - for standard input")
    .option("--output <file>", "write JSON lines here instead of standard output")
    .option("--json", "print one JSON object per completion")
    .option("--logits-out <file>", "write the prompt's logits as safetensors")
    .action(async (model: string | undefined, flags: GenerateFlags) => generate(model, flags));
  samplingFlags.addTo(command, "Sampling:");
  addEngineFlags(command);
}

async function generate(model: string | undefined, flags: GenerateFlags): Promise<void> {
  const prompts = await readPrompts(flags);
  samplingFlags.parse(flags);
  if (flags.logitsOut !== undefined && prompts.length !== 1) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use --logits-out: wanted one prompt, current value is ${prompts.length}`,
    );
  }
  await using llm = await loadModel({ model, values: flags });
  const results = await runAll(llm, prompts, flags);
  const lines = results.flatMap((result) => render(result, flags));
  if (flags.output === undefined) process.stdout.write(lines.join(""));
  else await writeFile(flags.output, lines.join(""));
}

async function runAll(
  llm: LLM,
  prompts: readonly Prompt[],
  flags: GenerateFlags,
): Promise<GenerateResult[]> {
  const json = flags.json === true || flags.output !== undefined;
  const options = {
    ...samplingFlags.collect(flags),
    ...(json && flags.logprobs === undefined ? { logprobs: 0 } : {}),
    detokenize: llm.codec !== null,
  };
  const progress = new Progress("generating", prompts.length);
  try {
    if (flags.logitsOut !== undefined)
      await writeLogits(llm, prompts[0] as Prompt, flags.logitsOut);
    return await Promise.all(
      prompts.map(async (prompt) => {
        const [result] = await llm.generate([prompt], options);
        progress.advance();
        return result as GenerateResult; // one prompt, one result
      }),
    );
  } finally {
    progress.stop();
  }
}

async function writeLogits(llm: LLM, prompt: Prompt, file: string): Promise<void> {
  const { logits, rows } = await llm.promptLogits(prompt);
  const shape = [rows, llm.info.vocabularySize];
  const bytes = new Uint8Array(logits.buffer, logits.byteOffset, logits.byteLength);
  writeSafetensors(file, [{ name: "logits", dtype: "f32", shape, bytes }]);
}

/** One text per completion, or one JSON object per line. */
function render(result: GenerateResult, flags: GenerateFlags): string[] {
  const json = flags.json === true || flags.output !== undefined;
  return result.completions.map((completion) => {
    if (!json) return `${completion.text ?? completion.tokenIds.join(",")}\n`;
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

async function readPrompts(flags: GenerateFlags): Promise<Prompt[]> {
  const prompts: Prompt[] = [...(flags.prompt ?? [])];
  for (const list of flags.promptIds ?? []) prompts.push({ promptTokenIds: parseIds(list) });
  if (flags.input !== undefined) prompts.push(...(await readPromptFile(flags.input)));
  if (prompts.length === 0) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot generate: wanted a prompt (-p TEXT, --prompt-ids 1,2,3 or --input FILE), got none",
    );
  }
  return prompts;
}

function parseIds(list: string): number[] {
  return list.split(",").map((text) => {
    const id = Number(text);
    if (text.trim() === "" || !Number.isInteger(id) || id < 0) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot use --prompt-ids: wanted token ids like 1,2,3, current value is ${list}`,
      );
    }
    return id;
  });
}

async function readPromptFile(file: string): Promise<Prompt[]> {
  const prompts: Prompt[] = [];
  let number = 0;
  for await (const line of createInterface({ input: await openInput(file) })) {
    number += 1;
    if (line.trim() !== "") prompts.push(parsePromptLine(line, `${file}, line ${number}`));
  }
  return prompts;
}

async function openInput(file: string): Promise<NodeJS.ReadableStream> {
  if (file === "-") return process.stdin;
  try {
    await (await open(file)).close();
  } catch (cause) {
    throw new EngineError("IO", `Cannot read ${file}: wanted a file of JSON lines`, { cause });
  }
  return createReadStream(file);
}

function parsePromptLine(line: string, where: string): Prompt {
  const refuse = (wanted: string, cause?: unknown) =>
    new EngineError("INVALID_ARGUMENT", `Cannot read ${where}: wanted ${wanted}`, { cause });
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw refuse("a JSON object", cause);
  }
  if (typeof value === "string") return value;
  const { prompt, prompt_token_ids: ids } = (value ?? {}) as Record<string, unknown>; // checked below
  if (typeof prompt === "string") return prompt;
  if (Array.isArray(ids) && ids.length > 0 && ids.every((id) => Number.isInteger(id) && id >= 0)) {
    return { promptTokenIds: ids };
  }
  throw refuse('"prompt" (text) or "prompt_token_ids" (a list of ids)');
}
