/** What the text of a chat template says of the outputs of its models. */
import type { CallFormatName } from "./call-formats.ts";

type Sign = readonly [CallFormatName, (template: string) => boolean];

const has =
  (...texts: readonly string[]) =>
  (template: string): boolean =>
    texts.every((text) => template.includes(text));

/** The first that fits counts. */
const SIGNS: readonly Sign[] = [
  ["qwen3_coder", has("<function=", "<parameter=")],
  ["phi4_mini_json", has("<|tool_call|>")],
  ["mistral_args", has("[TOOL_CALLS]", "[ARGS]")],
  ["mistral", has("[TOOL_CALLS]")],
  ["smollm", has("<tool_call>[")],
  ["hermes", has("<tool_call>")],
  ["pythonic", has("[func_name1(")],
  ["llama3_json", has('"parameters": dictionary of argument name')],
  ["llama3_json", has("<|python_tag|>")],
  ["gemma", has("```tool_code")],
];

/** The format of calls that the template shows its model; null: it shows none that is known. */
export function callFormatOf(template: string): CallFormatName | null {
  return SIGNS.find(([, fits]) => fits(template))?.[0] ?? null;
}

/** The marks between which a model thinks. */
export interface ThinkingMarkTexts {
  readonly start: string;
  readonly end: string;
}

const THINK: ThinkingMarkTexts = { start: "<think>", end: "</think>" };
const MISTRAL: ThinkingMarkTexts = { start: "[THINK]", end: "[/THINK]" };
const SEED: ThinkingMarkTexts = { start: "<seed:think>", end: "</seed:think>" };

/** The names of the formats of reasoning; `auto` chooses by template and vocabulary. */
export const REASONING_FORMATS = ["auto", "qwen3", "deepseek_r1", "mistral", "seed_oss"] as const;
export type ReasoningFormatName = (typeof REASONING_FORMATS)[number];

/** How a model's thinking is told from its answer. */
export interface ReasoningFormat extends ThinkingMarkTexts {
  /** The output begins with thinking, unless the prompt has ended it. */
  readonly begins: boolean;
}

/** What is known of a model. */
export interface ModelMarks {
  /** The text of its chat template; null: it has none. */
  readonly template: string | null;
  /** Whether its vocabulary has a token of exactly that spelling. */
  hasToken(spelling: string): boolean;
}

/** The marks of a format; for `auto` null where neither template nor vocabulary has any. */
export function reasoningFormat(
  name: ReasoningFormatName,
  { template, hasToken }: ModelMarks,
): ReasoningFormat | null {
  switch (name) {
    case "qwen3":
      return { ...THINK, begins: false };
    case "deepseek_r1":
      return { ...THINK, begins: true };
    case "mistral":
      return { ...MISTRAL, begins: false };
    case "seed_oss":
      return { ...SEED, begins: false };
    case "auto": {
      const known = [THINK, MISTRAL, SEED];
      const shown = known.find(({ end }) => template?.includes(end) === true);
      const found = shown ?? known.find((marks) => hasToken(marks.start) && hasToken(marks.end));
      return found === undefined ? null : { ...found, begins: false };
    }
  }
}
