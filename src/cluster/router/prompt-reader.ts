/** What routing reads of a request: its prompt as ids, or what stands for them. */
import { EngineError, isPlainObject } from "#base";
import { type DispatchRequest, hashText } from "#cluster/routing";
import {
  beginsWithNoise,
  chatPromptTokens,
  completionPromptTokens,
  messagesPromptTokens,
  ollamaPromptTokens,
  responsePromptTokens,
  withoutNoise,
} from "#server";
import { type GenerationRequest, isSteered } from "./generation-request.ts";
import type { ModelCodecs } from "./model-codecs.ts";
import type { RemoteTokens } from "./remote-tokens.ts";
import { textTokens } from "./text-tokens.ts";
import type { WorkerLink } from "./worker-link.ts";

/** Where the tokens of a query come from: indexes of tokens know nothing of pieces of text. */
export type TokenOrigin = "router" | "worker" | "text" | "none";

export interface ReadPrompts {
  readonly query: Omit<DispatchRequest, "excluded">;
  readonly origin: TokenOrigin;
  /** By prompt, for workers that agree; null: they get texts. */
  readonly promptTokenIds: readonly (readonly number[])[] | null;
}

export interface PromptReaderOptions {
  readonly codecs: ModelCodecs;
  readonly remote: RemoteTokens;
  /** A worker of another engine that serves the model and can be asked; null: there is none. */
  readonly askable: (request: GenerationRequest) => WorkerLink | null;
}

/** Characters of a token, where no tokenizer is known. */
const TOKEN_CHARACTERS = 4;
/** Leading text that prefix policies hash. */
const PREFIX_CHARACTERS = 1024;

export class PromptReader {
  readonly #options: PromptReaderOptions;

  constructor(options: PromptReaderOptions) {
    this.#options = options;
  }

  async read(request: GenerationRequest, signal: AbortSignal): Promise<ReadPrompts> {
    const own = await this.#ownTokens(request, signal);
    const [first = []] = own ?? [];
    if (own !== null) {
      // A worker moves noise in a prompt or leaves it, as its operator wants, and says so.
      const isSent = isSteered(request.kind) && !beginsWithNoise(request.body.messages);
      const tokens = Uint32Array.from(first);
      return readPrompts(request, tokens, { origin: "router", own: isSent ? own : null });
    }
    const given = givenIds(request);
    if (given !== null) return readPrompts(request, given, { origin: "router", own: null });
    const link = this.#options.askable(request);
    const told = link === null ? null : await this.#options.remote.tokensOf(request, link);
    if (told !== null) return readPrompts(request, told, { origin: "worker", own: null });
    if (request.kind === "other") {
      return readPrompts(request, null, { origin: "none", own: null });
    }
    const pieces = textTokens(promptParts(request));
    return readPrompts(request, pieces, { origin: "text", own: null });
  }

  /** Null: no tokenizer is known, or the request cannot be read, as its worker will say. */
  async #ownTokens(
    request: GenerationRequest,
    signal: AbortSignal,
  ): Promise<readonly (readonly number[])[] | null> {
    const { kind, body, model } = request;
    const source = model === null ? null : this.#options.codecs.sourceOf(model);
    if (source === null || request.isPrivate) return null;
    try {
      if (kind === "chat") return [await chatPromptTokens(source, body, signal)];
      if (kind === "messages") return [await messagesPromptTokens(source, body, signal)];
      if (kind === "ollama") return [await ollamaPromptTokens(source, body, signal)];
      if (kind === "responses") {
        const tokens = await responsePromptTokens(source, body, signal);
        return tokens === null ? null : [tokens];
      }
      if (kind !== "completions" || !isText(body.prompt)) return null;
      return await completionPromptTokens(source, body, signal);
    } catch (error) {
      if (error instanceof EngineError) return null;
      throw error;
    }
  }
}

function readPrompts(
  request: GenerationRequest,
  tokens: Uint32Array | null,
  { origin, own }: Pick<ReadPrompts, "origin"> & { own: ReadPrompts["promptTokenIds"] },
): ReadPrompts {
  const { model, session, outputTokens, salt, text } = request;
  const guessed = Math.ceil(text.length / TOKEN_CHARACTERS);
  const promptTokens = tokens === null ? guessed : tokens.length;
  const prefixHash = hashText(leadingText(request));
  return {
    origin,
    promptTokenIds: own,
    query: {
      ...{
        model,
        session,
        outputTokens,
        salt,
        lora: loraOf(request),
        tokens,
        promptTokens,
        prefixHash,
      },
      ...{ isUnseen: !request.stream, mayFetch: mayFetch(request), isText: origin === "text" },
    },
  };
}

/** SGLang's field, or TensorRT-LLM's; vLLM's adapters are names of models. */
function loraOf({ body }: GenerationRequest): string | null {
  if (typeof body.lora_path === "string") return body.lora_path;
  const { lora_request: lora } = body;
  return isPlainObject(lora) && typeof lora.lora_name === "string" ? lora.lora_name : null;
}

/** Ids that the client sent itself. */
function givenIds({ body }: GenerationRequest): Uint32Array | null {
  const field = body.prompt ?? body.input;
  const list: unknown = Array.isArray(field) && Array.isArray(field[0]) ? field[0] : field;
  if (!Array.isArray(list) || typeof list[0] !== "number") return null;
  return Uint32Array.from(list as number[]); // what is no id becomes 0, which is never found
}

function isText(prompt: unknown): boolean {
  if (typeof prompt === "string") return true;
  return Array.isArray(prompt) && typeof prompt[0] === "string";
}

/** The beginning of the prompt: its instructions, its first message, or its text. */
function leadingText(request: GenerationRequest): string {
  const { kind, body } = request;
  const { messages } = body;
  const first: unknown = Array.isArray(messages) ? messages[0] : null;
  const content = isPlainObject(first) ? first.content : promptParts(request).join("");
  const hasSystem = kind === "messages" || kind === "ollama";
  const instructions = hasSystem ? (body.system ?? content) : content;
  return withoutNoise(textOf(instructions)).slice(0, PREFIX_CHARACTERS);
}

/** Of a text or a list of parts; what it is else, as JSON. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return JSON.stringify(content) ?? "";
  return content.map(partText).join("\n");
}

function partText(part: unknown): string {
  return isPlainObject(part) && typeof part.text === "string" ? part.text : "";
}

/** The prompt's text in parts: what begins alike is alike as far. */
function promptParts({ kind, body, text }: GenerationRequest): readonly string[] {
  if (kind === "ollama") return conversationParts(body.messages ?? conversationOf(body));
  if (kind === "messages") {
    return [`${withoutNoise(textOf(body.system ?? ""))}\n`, ...conversationParts(body.messages)];
  }
  if (kind === "responses") return [JSON.stringify([body.instructions ?? "", body.input])];
  const field = body.messages ?? body.prompt ?? body.input;
  const first: unknown = Array.isArray(field) && typeof field[0] === "string" ? field[0] : field;
  if (typeof first === "string") return [first];
  return first === undefined ? [text] : conversationParts(first);
}

/** Of messages of text the texts as they are; of all else JSON. */
function conversationParts(conversation: unknown): readonly string[] {
  if (!Array.isArray(conversation)) return [JSON.stringify(conversation) ?? ""];
  return conversation.flatMap((message: unknown) => {
    if (!isPlainObject(message)) return [JSON.stringify(message)];
    const { role, content, ...more } = message;
    const isText = typeof role === "string" && typeof content === "string";
    if (!isText || Object.keys(more).length > 0) return [JSON.stringify(message)];
    return [`\n${role}: `, content];
  });
}

/** Of POST /api/generate: a chat that begins alike begins where it is cached, too. */
function conversationOf({ system, prompt, raw }: GenerationRequest["body"]): unknown {
  if (raw === true) return prompt;
  const hasSystem = typeof system === "string" && system !== "";
  const user = { role: "user", content: prompt };
  return hasSystem ? [{ role: "system", content: system }, user] : [user];
}

/** Whether keys and values of its prompt may come from another worker. */
function mayFetch({ kind, isPrivate, promptCount }: GenerationRequest): boolean {
  return isSteered(kind) && !isPrivate && promptCount === 1;
}
