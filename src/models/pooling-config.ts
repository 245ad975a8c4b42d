/** Turns the files of sentence-transformers into pooling settings, or rejects them by name. */
import { z } from "zod";
import { EngineError } from "#base";
import { type JsonConfig, parseConfig } from "./config.ts";
import { meanPooling, POOLING_MODES, type PoolingMode, type PoolingSpec } from "./pooling.ts";

/** The settings of vectors in a model's folder, as plain JSON: #checkpoint's `SentenceFiles`. */
export interface SentenceSource {
  readonly modules:
    | readonly {
        readonly type: string;
        readonly path: string;
        readonly config: JsonConfig | null;
      }[]
    | null;
  readonly text: JsonConfig | null;
  readonly settings: JsonConfig | null;
  readonly tokenizerTokensMax: number | null;
}

/** What is put before texts, as a model was trained. */
export interface TextPrompts {
  /** By their names, e.g. `query` and `document`. */
  readonly texts: Readonly<Record<string, string>>;
  /** The one that sentence-transformers uses where a call names none; null: it uses none. */
  readonly defaultName: string | null;
  /** Whether a prompt's rows are pooled with those of the text. */
  readonly pooled: boolean;
}

/** How a model turns texts into vectors. */
export interface TextEmbedding {
  readonly pooling: PoolingSpec;
  readonly prompts: TextPrompts;
  /** Most tokens of a text, special ones included; no more than the model's context. */
  readonly tokensMax: number;
  /** Settings of the folder that have no effect here, a sentence each. */
  readonly warnings: readonly string[];
}

const TextConfig = z.looseObject({ max_seq_length: z.int().positive().nullish() });
const SettingsConfig = z.looseObject({
  prompts: z.record(z.string(), z.string().nullable()).nullish(),
  default_prompt_name: z.string().nullish(),
});
const Mode = z.enum(POOLING_MODES);
const PoolingConfig = z.looseObject({
  embedding_dimension: z.int().positive().nullish(),
  word_embedding_dimension: z.int().positive().nullish(),
  pooling_mode: z.union([Mode, z.array(Mode).min(1)]).nullish(),
  include_prompt: z.boolean().nullish(),
});

/** Of a folder without sentence-transformers' files. */
const noPrompts: TextPrompts = { texts: {}, defaultName: null, pooled: true };

/** Older folders have a flag for each mode. */
const modeFlags: Readonly<Record<string, PoolingMode>> = {
  pooling_mode_cls_token: "cls",
  pooling_mode_max_tokens: "max",
  pooling_mode_mean_tokens: "mean",
  pooling_mode_mean_sqrt_len_tokens: "mean_sqrt_len_tokens",
  pooling_mode_weightedmean_tokens: "weightedmean",
  pooling_mode_lasttoken: "lasttoken",
};

/**
 * How a model with these files turns texts into vectors: as sentence-transformers does, or, for a
 * folder without modules, means of length 1. Throws UNSUPPORTED_MODEL for a module that has no
 * counterpart here, and CHECKPOINT_INVALID for a file that contradicts the model.
 */
export function textEmbedding(
  source: SentenceSource | null,
  model: { readonly hiddenSize: number; readonly contextTokensMax: number },
): TextEmbedding {
  const { contextTokensMax } = model;
  if (source === null) return plainEmbedding(contextTokensMax);
  const { max_seq_length: own } = parse(TextConfig, source.text, "sentence_bert_config.json");
  const tokensMax = Math.min(
    own ?? source.tokenizerTokensMax ?? contextTokensMax,
    contextTokensMax,
  );
  const { modules, settings } = source;
  const { pooling, pooled } =
    modules === null ? { pooling: meanPooling, pooled: true } : poolingOf(modules, model);
  const prompts = { ...promptsOf(settings), pooled };
  return { pooling, prompts, tokensMax, warnings: promptWarnings(prompts) };
}

/** Of a model whose files specify nothing: means of length 1. */
export function plainEmbedding(tokensMax: number): TextEmbedding {
  return { pooling: meanPooling, prompts: noPrompts, tokensMax, warnings: [] };
}

function poolingOf(
  modules: NonNullable<SentenceSource["modules"]>,
  { hiddenSize }: { readonly hiddenSize: number },
): { readonly pooling: PoolingSpec; readonly pooled: boolean } {
  const kinds = modules.map(({ type }) => kindOf(type));
  // A dropout affects training only.
  const order = kinds.filter((kind) => kind !== "Dropout").join(", ");
  if (order !== "Transformer, Pooling" && order !== "Transformer, Pooling, Normalize") {
    throw unsupported(
      "modules.json",
      "list Transformer, Pooling and at most Normalize",
      modules.map(({ type }) => type).join(", "),
    );
  }
  const transformer = modules[kinds.indexOf("Transformer")];
  if (transformer?.path !== "") {
    throw unsupported("modules.json", "have its Transformer at the top", transformer?.path);
  }
  const { path, config } = modules[kinds.indexOf("Pooling")] ?? { path: "", config: null };
  const file = `${path}/config.json`;
  if (config === null) throw invalid(file, "the pooling of modules.json", "missing");
  const { dimension, pooled } = fieldsOf(config, file);
  if (dimension !== undefined && dimension !== hiddenSize) {
    throw invalid(file, `word_embedding_dimension ${hiddenSize}, the model's`, dimension);
  }
  const pooling = { modes: modesOf(config, file), normalize: kinds.includes("Normalize") };
  return { pooling, pooled };
}

/** The class's own name; a class of another package keeps its full name, and is unsupported. */
function kindOf(type: string): string {
  return type.startsWith("sentence_transformers.") ? (type.split(".").at(-1) ?? type) : type;
}

function fieldsOf(config: JsonConfig, file: string) {
  const parsed = parse(PoolingConfig, config, file);
  const dimension = parsed.embedding_dimension ?? parsed.word_embedding_dimension ?? undefined;
  return { dimension, pooled: parsed.include_prompt ?? true };
}

function modesOf(config: JsonConfig, file: string): readonly PoolingMode[] {
  const { pooling_mode: named } = parse(PoolingConfig, config, file);
  if (named) return typeof named === "string" ? [named] : named;
  for (const [field, value] of Object.entries(config)) {
    if (field.startsWith("pooling_mode_") && value === true && modeFlags[field] === undefined) {
      throw unsupported(file, `pool by ${Object.keys(modeFlags).join(", ")}`, field);
    }
  }
  const modes = Object.entries(modeFlags).flatMap(([field, mode]) =>
    config[field] === true ? [mode] : [],
  );
  return modes.length > 0 ? modes : meanPooling.modes;
}

/** Throws CHECKPOINT_INVALID for a default name that has no prompt. */
function promptsOf(settings: JsonConfig | null): Omit<TextPrompts, "pooled"> {
  const file = "config_sentence_transformers.json";
  const { prompts, default_prompt_name } = parse(SettingsConfig, settings, file);
  const texts = Object.fromEntries(
    Object.entries(prompts ?? {}).flatMap(([name, text]) => (text === null ? [] : [[name, text]])),
  );
  const defaultName = default_prompt_name ?? null;
  // Two prompts are always there; empty, unless the file has words for them.
  const names = { query: "", document: "", ...prompts };
  if (defaultName !== null && !Object.hasOwn(names, defaultName)) {
    throw invalid(file, "the prompt that default_prompt_name names", defaultName);
  }
  return { texts, defaultName };
}

/**
 * Warns of a default prompt, which sentence-transformers puts before every text unless it is
 * disabled.
 */
function promptWarnings({ texts, defaultName }: TextPrompts): readonly string[] {
  const prompt = defaultName === null ? undefined : texts[defaultName];
  if (!prompt) return [];
  return [
    `Texts are embedded as they are: config_sentence_transformers.json has the default prompt ` +
      `${JSON.stringify(defaultName)}; put ${JSON.stringify(prompt)} before each text to get ` +
      "what sentence-transformers gives",
  ];
}

function parse<T>(schema: z.ZodType<T>, config: JsonConfig | null, file: string): T {
  return parseConfig(schema, config ?? {}, file);
}

function unsupported(file: string, wanted: string, value: unknown): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot embed with this model: ${file} must ${wanted}, current value is ${String(value)}`,
    { param: file },
  );
}

function invalid(file: string, wanted: string, value: unknown): EngineError {
  return new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot read ${file}: it must have ${wanted}, current value is ${String(value)}`,
    { param: file },
  );
}
