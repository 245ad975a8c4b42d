/** How servers of other engines are asked for the tokens of a prompt. */
import { isPlainObject } from "#base";
import type { WorkerInfo } from "#cluster/protocol";
import type { GenerationRequest } from "./generation-request.ts";

/** One way to ask. */
export interface TokenizeRoute {
  readonly path: string;
  /** Null: not the tokens of one prompt. */
  readonly read: (answer: unknown) => Uint32Array | null;
}

/** What a question is about: a chat, or a prompt of one text. */
export interface TokenizeQuestion {
  readonly kind: "chat" | "completions";
  /** JSON. */
  readonly body: string;
}

/** Fields of a chat that its prompt depends on. */
const CHAT_FIELDS = [
  ...["messages", "tools", "tool_choice", "chat_template", "chat_template_kwargs", "documents"],
  ...["add_generation_prompt", "continue_final_message", "add_special_tokens"],
  ...["reasoning_effort", "response_format"],
] as const;

const tokenize: TokenizeRoute = {
  path: "/tokenize",
  read: (answer) => idsOf(isPlainObject(answer) ? answer.tokens : null),
};
const renderChat: TokenizeRoute = {
  path: "/v1/chat/completions/render",
  read: (answer) => idsOf(isPlainObject(answer) ? answer.token_ids : null),
};
const renderCompletions: TokenizeRoute = {
  path: "/v1/completions/render",
  read: (answer) => {
    const [only, ...others] = Array.isArray(answer) ? answer : [];
    return others.length === 0 && isPlainObject(only) ? idsOf(only.token_ids) : null;
  },
};

/**
 * Ways to ask a worker, the most exact first. vLLM renders since 0.18, where its scale-out routes
 * are on; SGLang's and older vLLM's `/tokenize` take chats, or say that they do not; what
 * TensorRT-LLM's answers is taken where it has one.
 */
export function tokenizeRoutes(
  { kind }: WorkerInfo,
  question: TokenizeQuestion,
): readonly TokenizeRoute[] {
  if (kind === "vllm") {
    return [question.kind === "chat" ? renderChat : renderCompletions, tokenize];
  }
  return kind === "sglang" || kind === "tensorrt-llm" ? [tokenize] : [];
}

/** Null: the request has no single prompt of text. */
export function questionOf({ kind, body }: GenerationRequest): TokenizeQuestion | null {
  const { model } = body;
  if (kind === "completions" && typeof body.prompt === "string") {
    const special = body.add_special_tokens;
    const fields = special === undefined ? {} : { add_special_tokens: special };
    return { kind, body: JSON.stringify({ model, prompt: body.prompt, ...fields }) };
  }
  if (kind !== "chat") return null;
  const fields = CHAT_FIELDS.filter((name) => body[name] !== undefined);
  const chat = Object.fromEntries(fields.map((name) => [name, body[name]]));
  return { kind, body: JSON.stringify({ model, ...chat }) };
}

function idsOf(value: unknown): Uint32Array | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const isIds = value.every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 32);
  return isIds ? Uint32Array.from(value as number[]) : null;
}
