/** How the outputs of one conversation are read: thinking, answer, calls. */
import { AnswerReader } from "./answer-reader.ts";
import { PlainParser } from "./beginning-parser.ts";
import type { OutputParser } from "./output-part.ts";
import {
  type ReasoningFormat,
  type ReasoningFormatName,
  reasoningFormat,
} from "./template-format.ts";

/** Tokens at the end of a prompt in which a template's mark is looked for. */
const TAIL_TOKENS = 32;

/** The text side of a model. */
export interface TextSide {
  decode(ids: readonly number[], options: { readonly skipSpecialTokens: boolean }): string;
  tokenBytes(id: number): Uint8Array;
  /** Absent: unknown. */
  tokenId?(spelling: string): number | null;
}

/** What the reading of outputs depends on. */
export interface ReadingInputs {
  /** Null: the model has no text. */
  readonly codec: TextSide | null;
  /** The text of the chat template; null: unknown. */
  readonly template: string | null;
  /** The format of thinking. */
  readonly setting: ReasoningFormatName | "none";
  readonly promptTokenIds: readonly number[];
  /** The text that the output continues; null: the prompt opens a turn. */
  readonly continued: string | null;
  readonly tools: {
    readonly createParser: (() => OutputParser) | null;
    readonly marks: readonly string[];
  };
  /** A grammar constrains the answer, and sequences are sampled, not searched by beams. */
  readonly isConstrained: boolean;
  /** The most tokens of a sequence. */
  readonly contextTokensMax: number;
}

/** How the outputs of one conversation are read. */
export interface AnswerReading {
  /** All text is content: readers have nothing to do. */
  readonly isPlain: boolean;
  /** A reader for one sequence. */
  createReader(): AnswerReader;
  /** What it adds to the options of generation. */
  readonly options: {
    readonly shownTokenIds?: number[];
    readonly thinkingTokenBudget?: number;
  };
}

/** Chooses readers by the settings, the template and the end of the prompt. */
export function answerReading(inputs: ReadingInputs): AnswerReading {
  const { tools, codec } = inputs;
  const format = codec === null ? null : formatOf(inputs, codec);
  const marks = [...tools.marks, ...(format === null ? [] : [format.start, format.end])];
  const shownTokenIds = marks.map((mark) => idOf(codec, mark)).filter((id) => id !== null);
  const shown = shownTokenIds.length === 0 ? {} : { shownTokenIds };
  const answer = tools.createParser ?? (() => new PlainParser());
  if (format === null || codec === null) {
    const createReader = () => new AnswerReader({ answer: answer(), reasoning: null });
    return { isPlain: tools.createParser === null, createReader, options: shown };
  }
  const opened = isOpened(inputs, format, codec);
  const endTokenId = idOf(codec, format.end);
  const tokenBytes = (id: number): Uint8Array => codec.tokenBytes(id);
  const reasoning = { marks: format, opened, endTokenId, tokenBytes };
  return {
    isPlain: false,
    createReader: () => new AnswerReader({ answer: answer(), reasoning }),
    options: { ...shown, ...thinkingFirst(inputs, format, opened) },
  };
}

function idOf(codec: TextSide | null, spelling: string): number | null {
  return codec?.tokenId?.(spelling) ?? null;
}

function formatOf({ setting, template }: ReadingInputs, codec: TextSide): ReasoningFormat | null {
  if (setting === "none") return null;
  const hasToken = (spelling: string): boolean => idOf(codec, spelling) !== null;
  return reasoningFormat(setting, { template, hasToken });
}

/** Whether the output begins inside of thinking. Of the prompt only the very end counts. */
function isOpened(
  { promptTokenIds, continued }: ReadingInputs,
  { start, end, begins }: ReasoningFormat,
  codec: TextSide,
): boolean {
  if (continued !== null) return continued.lastIndexOf(start) > continued.lastIndexOf(end);
  const tail = codec.decode(promptTokenIds.slice(-TAIL_TOKENS), { skipSpecialTokens: false });
  const text = tail.trimEnd();
  return text.endsWith(start) || (begins && !text.endsWith(end));
}

/**
 * Lets a thinking model think before an answer that a grammar constrains. A prompt whose texts
 * contain an open mark would leave the whole answer unconstrained: then the grammar begins at once.
 */
function thinkingFirst(
  { codec, template, isConstrained, promptTokenIds, contextTokensMax }: ReadingInputs,
  { start, end }: ReasoningFormat,
  opened: boolean,
): AnswerReading["options"] {
  const startId = idOf(codec, start);
  const endId = idOf(codec, end);
  if (!isConstrained || startId === null || endId === null) return {};
  const seemsOpen = promptTokenIds.lastIndexOf(startId) > promptTokenIds.lastIndexOf(endId);
  const mayThink = opened || template?.includes(start) === true;
  return seemsOpen === opened && mayThink ? { thinkingTokenBudget: contextTokensMax } : {};
}
