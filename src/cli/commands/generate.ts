import type { Command } from "commander";
import { EngineError } from "#base";
import { writeSafetensors } from "#checkpoint";
import type { GenerateOptions, LLM, Prompt, RetentionConfig } from "#engine";
import { generateBatch } from "../batch.ts";
import { addEngineFlags, engineFlags, loadModel } from "../engine-flags.ts";
import { appendText, flagOption } from "../flag-option.ts";
import { inFlags } from "../flags.ts";
import { Interrupted, Interruption } from "../interruption.ts";
import type { PromptRow } from "../prompt-row.ts";
import { readPrompts } from "../prompt-source.ts";
import { ResultOutput } from "../result-output.ts";
import { RETENTION_HELP, retentionFromFlag } from "../retention.ts";
import { SAMPLING_HEADING, samplingFlags } from "../sampling-flags.ts";
import { print } from "../standard-output.ts";
import { plainText } from "../terminal-text.ts";

/** Longer than the API's default of 16 tokens, for interactive use. */
const MAX_TOKENS_DEFAULT = 128;

const sampling = samplingFlags({ maxTokens: MAX_TOKENS_DEFAULT });

interface GenerateFlags extends Readonly<Record<string, unknown>> {
  readonly prompt?: string[];
  readonly promptIds?: string[];
  readonly input?: string;
  readonly output?: string;
  readonly json?: boolean;
  readonly logitsOut?: string;
  readonly waitingSequencesMax?: number;
  readonly n?: number;
  readonly numReturnSequences?: number;
  readonly retention?: unknown;
}

/** Validated flags, with one name for each setting. */
interface CheckedFlags extends GenerateFlags {
  readonly retention: RetentionConfig | undefined;
}

const numReturnSequences = flagOption("num-return-sequences", {
  type: "integer",
  description: "Hugging Face's name for --n.",
}).helpGroup(SAMPLING_HEADING);

const retention = flagOption("retention", { type: "object", description: RETENTION_HELP });

/** `perigee generate`. */
export function defineGenerate(command: Command): void {
  command
    .option("-p, --prompt <text>", "Prompt; may be repeated for a batch.", appendText)
    .option("--prompt-ids <n,n,…>", "Prompt as token ids; may be repeated.", appendText)
    .option(
      "--input <file>",
      'JSON lines with "prompt" or "prompt_token_ids", and sampling fields of their own, e.g. ' +
        '"max_tokens"; - reads standard input. (without any prompt: the text of a pipe is the ' +
        "prompt)",
    )
    .option("--output <file>", "Write JSON lines here instead of text to standard output.")
    .option("--json", "Print one JSON object per completion.")
    .option("--logits-out <file>", "Write the prompt's logits as safetensors: f32 [tokens, vocab].")
    .action((model: string | undefined, flags: GenerateFlags) =>
      generate(model, flags).catch((thrown: unknown) => {
        throw inFlags(thrown, sampling, engineFlags);
      }),
    );
  command.addOption(retention);
  sampling.addTo(command, SAMPLING_HEADING);
  command.addOption(numReturnSequences);
  addEngineFlags(command, MEASURE_MS);
}

/** Most time that measuring drafts takes: some prompts take less than a second. */
const MEASURE_MS = 100;

async function generate(model: string | undefined, given: GenerateFlags): Promise<void> {
  const flags = checkedFlags(given);
  const rows = await readPrompts({ ...flags, model }, { sampling, flags });
  const [first] = rows;
  if (flags.logitsOut !== undefined && rows.length !== 1) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use --logits-out: wanted one prompt, current value is ${rows.length}`,
    );
  }
  const needsText = rows.some((row) => "prompt" in row && typeof row.prompt === "string");
  await using llm = await loadModel({ model, values: flags, needsText, draftsMs: MEASURE_MS });
  using interruption = new Interruption();
  const { signal } = interruption;
  if (flags.logitsOut !== undefined && first !== undefined && "prompt" in first) {
    await writeLogits(llm, first.prompt, flags.logitsOut);
  }
  const optionsFor = (row: PromptRow) => optionsOf(llm, flags, row);
  if (rows.length === 1 && first !== undefined && "prompt" in first) {
    const options = optionsFor(first);
    if ((options.n ?? 1) === 1 && !wantsJson(flags)) {
      await showAsItComes(llm, first.prompt, { ...options, signal });
      return;
    }
  }
  using output = new ResultOutput(flags.output);
  await generateBatch(llm, rows, {
    ...{ output, optionsOf: optionsFor, signal },
    json: wantsJson(flags),
    inWords: (thrown) => inFlags(thrown, sampling, engineFlags),
    warn: (message) => process.stderr.write(`perigee: ${plainText(message)}\n`),
    sequencesMax: flags.waitingSequencesMax ?? SEQUENCES_MAX,
    showProgress: flags.output !== undefined || !process.stdout.isTTY,
  });
}

/** Sequences passed to the engine at a time: it rejects more waiting ones. */
const SEQUENCES_MAX = 1024;

/** Throws INVALID_ARGUMENT naming the flag. */
function checkedFlags(given: GenerateFlags): CheckedFlags {
  const flags = { ...withOneCount(given), retention: retentionFromFlag(given.retention) };
  sampling.check(flags);
  return flags;
}

/** `--num-return-sequences` is `--n`. Throws INVALID_ARGUMENT if they contradict each other. */
function withOneCount({ numReturnSequences: count, ...flags }: GenerateFlags): GenerateFlags {
  if (count === undefined) return flags;
  if (flags.n === undefined || flags.n === count) return { ...flags, n: count };
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use --num-return-sequences: wanted the same as --n (${flags.n}), ` +
      `current value is ${count}; leave one of them out`,
    { param: "--num-return-sequences" },
  );
}

/**
 * The model's defaults, then flags, then the prompt's own options; later ones take precedence. The
 * authors' recommended parameters are for sampling: beam search ignores them.
 */
function optionsOf(llm: LLM, flags: CheckedFlags, row: PromptRow): GenerateOptions {
  const asked: GenerateOptions = { ...sampling.collect(flags), ...row.sampling };
  const isSampled = asked.beamWidth === undefined || asked.beamWidth === null;
  const kept = row.retention ?? flags.retention;
  return {
    ...(isSampled ? llm.defaultSampling : {}),
    detokenize: llm.codec !== null,
    ...asked,
    ...(kept === undefined ? {} : { retention: kept }),
  };
}

function wantsJson(flags: GenerateFlags): boolean {
  return flags.json === true || flags.output !== undefined;
}

/** Prints text as it is generated; token ids if the model has no tokenizer. */
async function showAsItComes(llm: LLM, prompt: Prompt, options: GenerateOptions): Promise<void> {
  let tokens = 0;
  try {
    for await (const { text, tokenIds } of llm.stream(prompt, options)) {
      const ids = () => (tokens === 0 || tokenIds.length === 0 ? "" : ",") + tokenIds.join(",");
      await print(text ?? ids());
      tokens += tokenIds.length;
    }
  } catch (thrown) {
    if (tokens > 0) await print("\n");
    if (options.signal?.aborted !== true) throw thrown;
    throw new Interrupted(`${tokens} tokens were generated`);
  }
  await print("\n");
}

async function writeLogits(llm: LLM, prompt: Prompt, file: string): Promise<void> {
  const { logits, rows } = await llm.promptLogits(prompt);
  const shape = [rows, llm.info.vocabularySize];
  const bytes = new Uint8Array(logits.buffer, logits.byteOffset, logits.byteLength);
  writeSafetensors(file, [{ name: "logits", dtype: "f32", shape, bytes }]);
}
