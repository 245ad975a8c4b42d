import type { CallFormatName, ReasoningFormatName } from "#chat";
import type { ChatMessage, ChatOptions, GenerateOptions } from "./api.ts";
import type { FinishReason } from "./listener.ts";

/** A JSON schema, as an object. */
export type ToolSchema = Readonly<Record<string, unknown>>;

/** What a handler of a tool gets beside the arguments. */
export interface ToolRun {
  readonly call: ChatToolCall;
  /** Of the chat; absent where it has none. */
  readonly signal?: AbortSignal;
}

/** A tool that the model may call. */
export interface ChatTool {
  /** 1 to 64 letters, digits, `_`, `.` or `-`. */
  readonly name: string;
  readonly description?: string | undefined;
  /** The schema of the arguments, an object's. Default: the tool takes none. */
  readonly parameters?: ToolSchema | undefined;
  /**
   * Runs a call. What it returns goes back to the model, as JSON unless it is a text; what it
   * throws too. Without it a call ends the chat, and is in the result's `toolCalls`.
   */
  run?(args: Readonly<Record<string, unknown>>, run: ToolRun): unknown;
}

/** The value that a schema describes, where it is one of the plain kinds; else `unknown`. */
export type ValueOf<Schema> = Schema extends { readonly const: infer Value }
  ? Value
  : Schema extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : Schema extends { readonly type: "string" }
      ? string
      : Schema extends { readonly type: "number" | "integer" }
        ? number
        : Schema extends { readonly type: "boolean" }
          ? boolean
          : Schema extends { readonly type: "array"; readonly items: infer Items }
            ? readonly ValueOf<Items>[]
            : Schema extends { readonly type: "object" }
              ? ArgumentsOf<Schema>
              : Schema extends { readonly type: "null" }
                ? null
                : Schema extends { readonly type: readonly (infer Kind)[] }
                  ? ValueOfKind<Schema, Kind>
                  : unknown;

/** The same for one of the types that a schema lists. */
type ValueOfKind<Schema, Kind> = Kind extends string
  ? ValueOf<Omit<Schema, "type"> & { readonly type: Kind }>
  : unknown;

type RequiredOf<Schema> = Schema extends { readonly required: readonly (infer Name)[] }
  ? Name
  : never;

/** The arguments that an object's schema describes: those not required may be absent. */
export type ArgumentsOf<Schema> = Schema extends { readonly properties: infer Properties }
  ? {
      readonly [Name in keyof Properties as Name extends RequiredOf<Schema>
        ? Name
        : never]: ValueOf<Properties[Name]>;
    } & {
      readonly [Name in keyof Properties as Name extends RequiredOf<Schema>
        ? never
        : Name]?: ValueOf<Properties[Name]>;
    }
  : Readonly<Record<string, unknown>>;

/** A tool whose handler's arguments have the types of its schema. */
export interface TypedTool<Schema extends ToolSchema> {
  readonly name: string;
  readonly description?: string;
  readonly parameters: Schema;
  run?(args: ArgumentsOf<Schema>, run: ToolRun): unknown;
}

/** A tool with a typed handler: the schema's types are those of the arguments. */
export function defineTool<const Schema extends ToolSchema>(tool: TypedTool<Schema>): ChatTool {
  const { run, ...rest } = tool;
  if (run === undefined) return rest;
  // A chat runs no handler with arguments that do not fit the schema.
  return { ...rest, run: (args, about) => run(args as ArgumentsOf<Schema>, about) };
}

/** A call of a tool. */
export interface ChatToolCall {
  readonly id: string;
  readonly name: string;
  /** The parsed arguments; null: they are no JSON object. */
  readonly arguments: Readonly<Record<string, unknown>> | null;
  /** The arguments as the model wrote them. */
  readonly argumentsText: string;
}

/** Options of `LLM.chat`. `maxTokens` bounds each answer; by default only the context does. */
export interface ChatCallOptions
  extends Omit<GenerateOptions, "n" | "beamWidth" | "logprobs" | "promptLogprobs">,
    Pick<ChatOptions, "chatTemplate" | "templateVariables"> {
  readonly tools?: readonly ChatTool[] | undefined;
  /** `required`: at least one call in the first round; `{ name }`: one of it. Default: auto. */
  readonly toolChoice?: "auto" | "none" | "required" | { readonly name: string } | undefined;
  /** False: at most one call a round. Default: true. */
  readonly parallelToolCalls?: boolean | undefined;
  /** Most answers that the model gives while its calls are run. Default: 8. */
  readonly roundsMax?: number | undefined;
  /** Sets `enable_thinking` of the chat template. Default: the template's. */
  readonly thinking?: boolean | undefined;
  /** How the model writes calls. Default: by the chat template. */
  readonly toolCallFormat?: CallFormatName | undefined;
  /** How thinking is told from the answer. Default: by the chat template. */
  readonly reasoningFormat?: ReasoningFormatName | "none" | undefined;
}

/** Tokens of a chat, of all rounds together. */
export interface ChatUsage {
  readonly promptTokens: number;
  /** Prompt tokens whose keys and values were in the cache. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Completion tokens of thinking. */
  readonly reasoningTokens: number;
}

/** Why a chat ended: as a generation, or with calls that were not run. */
export type ChatFinishReason = FinishReason | "tool-calls";

/** An answer. */
export interface ChatResult {
  /** The answer without thinking and calls, of the last round. */
  readonly text: string;
  /** The thinking before it; null: none. */
  readonly reasoning: string | null;
  /** Calls of the last round; none of them was run. */
  readonly toolCalls: readonly ChatToolCall[];
  /** What came to the conversation: append them, and results of `toolCalls`, to go on. */
  readonly messages: readonly ChatMessage[];
  readonly finishReason: ChatFinishReason;
  /** How many answers the model gave. */
  readonly rounds: number;
  readonly usage: ChatUsage;
}

/** What `LLM.chatStream` yields, in order; `end` is the last. */
export type ChatEvent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "tool-call-start"; readonly id: string; readonly name: string }
  /** More of the JSON text of a call's arguments. */
  | { readonly type: "tool-call-delta"; readonly id: string; readonly text: string }
  | { readonly type: "tool-call"; readonly call: ChatToolCall }
  /** A call was run: what the model is told. */
  | {
      readonly type: "tool-result";
      readonly call: ChatToolCall;
      readonly result: string;
      readonly isError: boolean;
    }
  | { readonly type: "end"; readonly result: ChatResult };
