/** What answers conversations and makes vectors: a model of this process, or a server. */

/** Tokens of one answer. */
export interface AnswerUsage {
  readonly promptTokens: number;
  /** Prompt tokens whose keys and values were in the cache. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Completion tokens of thinking. */
  readonly reasoningTokens: number;
}

/** What an answer consists of, in order; `end` is the last. Other types are passed over. */
export type ChatSourceEvent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "tool-call-start"; readonly id: string; readonly name: string }
  | { readonly type: "tool-call-delta"; readonly id: string; readonly text: string }
  | {
      readonly type: "tool-call";
      readonly call: {
        readonly id: string;
        readonly name: string;
        readonly argumentsText: string;
      };
    }
  | { readonly type: "tool-result" }
  | {
      readonly type: "end";
      readonly result: { readonly finishReason: string; readonly usage: AnswerUsage };
    };

/** A turn of a conversation, in OpenAI's form. */
export interface ChatTurn {
  readonly role: string;
  readonly content: string;
  readonly [field: string]: unknown;
}

/** How long blocks of the cache stay, as `GenerateOptions.retention` of perigee. */
export interface Retention {
  readonly ranges?: {
    readonly start: number;
    readonly end?: number | null;
    readonly priority?: number;
    readonly durationMs?: number | null;
  }[];
  readonly decodePriority?: number;
  readonly decodeDurationMs?: number | null;
}

/** A request, by the names of perigee's TypeScript API. */
export interface ChatRequest {
  readonly messages: readonly ChatTurn[];
  readonly tools: readonly {
    readonly name: string;
    readonly description?: string;
    readonly parameters: Readonly<Record<string, unknown>>;
  }[];
  readonly toolChoice: "auto" | "none" | "required" | { readonly name: string };
  readonly parallelToolCalls?: boolean;
  /** Absent: the chat template's default. */
  readonly thinking?: boolean;
  readonly templateVariables?: Readonly<Record<string, unknown>>;
  readonly sampling: {
    readonly maxTokens?: number;
    readonly temperature?: number;
    readonly topP?: number;
    readonly topK?: number;
    readonly presencePenalty?: number;
    readonly frequencyPenalty?: number;
    readonly seed?: number;
    readonly stop?: string[];
    readonly speculative?: boolean;
  };
  /** JSON of this schema, or any object; null: a text. */
  readonly output:
    | { readonly json: Record<string, unknown> }
    | { readonly jsonObject: true }
    | null;
  readonly retention?: Retention;
  readonly cacheSalt?: string;
  readonly priority?: number;
  readonly signal?: AbortSignal;
  /** Of this request, for servers. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

/** A request for vectors. */
export interface EmbedRequest {
  readonly values: readonly string[];
  readonly dimensions?: number;
  readonly signal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

/** Vectors in the texts' order, and how many tokens the texts had. */
export interface Embeddings {
  readonly embeddings: number[][];
  readonly tokens: number;
}

/** What answers. */
export interface ChatSource {
  /** Leaving the loop cancels the request. */
  chat(request: ChatRequest): AsyncIterable<ChatSourceEvent>;
  embed(request: EmbedRequest): Promise<Embeddings>;
}

/** What is needed of a model in this process: perigee's `LLM` is one. */
export interface PerigeeModel {
  readonly info: { readonly name: string };
  /** Sampling fields that the model's authors recommend. */
  readonly defaultSampling?: object;
  chatStream(
    messages: readonly ChatTurn[],
    options: Omit<ChatRequest, "messages" | "sampling" | "output" | "headers"> &
      ChatRequest["sampling"],
  ): AsyncIterable<ChatSourceEvent>;
  embed(
    values: readonly string[],
    options: { readonly signal?: AbortSignal },
  ): Promise<
    readonly { readonly embedding: Float32Array; readonly promptTokenIds: readonly number[] }[]
  >;
}
