/** A response in the API's form. */
import type { GenerateOptions } from "#engine";
import type { ErrorBody } from "../../http-errors.ts";
import type { Usage } from "../usage.ts";
import type { OutputItem } from "./output-writer.ts";
import type { ResponseRequest } from "./response-request.ts";

/** What is known of a response from its beginning. */
export interface ResponseFacts {
  readonly id: string;
  readonly request: ResponseRequest;
  readonly modelName: string;
  /** Unix time in seconds. */
  readonly created: number;
  /** It will be kept. */
  readonly isStored: boolean;
  /** Draws as they are made, with the server's defaults. */
  readonly sampling: Pick<GenerateOptions, "temperature" | "topP">;
}

/** How far it is. */
export interface ResponseState {
  readonly status: "in_progress" | "completed" | "incomplete" | "failed";
  readonly output: readonly OutputItem[];
  readonly usage: Usage | null;
  readonly reasoningTokens: number;
  readonly error: ErrorBody["error"] | null;
  /** Unix time in seconds; null: it is not over. */
  readonly completed: number | null;
}

/** The object `response`. */
export function responseBody(facts: ResponseFacts, state: ResponseState): object {
  const { id, request, modelName, created, isStored, sampling } = facts;
  const { status, output, error } = state;
  return {
    ...{ id, object: "response", created_at: created, status, background: false },
    completed_at: state.completed,
    error: error === null ? null : { code: errorCode(error), message: error.message },
    incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
    ...{ model: modelName, output, store: isStored },
    instructions: request.instructions ?? null,
    previous_response_id: request.previous_response_id ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    temperature: sampling.temperature ?? 1,
    top_p: sampling.topP ?? 1,
    top_logprobs: request.top_logprobs ?? 0,
    ...toolFieldsOf(request),
    text: { ...request.text, format: request.text?.format ?? { type: "text" } },
    reasoning: { effort: request.reasoning?.effort ?? null, summary: null },
    truncation: request.truncation ?? "disabled",
    service_tier: "default",
    metadata: request.metadata ?? {},
    user: typeof request.user === "string" ? request.user : null,
    // At the end, where routers look for it.
    usage: usageBody(state),
  };
}

function toolFieldsOf({ tools, tool_choice: choice, parallel_tool_calls }: ResponseRequest) {
  const given = tools ?? [];
  return {
    tools: given,
    tool_choice: choice ?? (given.length > 0 ? "auto" : "none"),
    parallel_tool_calls: parallel_tool_calls ?? true,
  };
}

/** OpenAI's word for what is the server's fault. */
function errorCode({ type, code }: ErrorBody["error"]): string | null {
  return type === "server_error" ? "server_error" : code;
}

function usageBody({ usage, reasoningTokens }: ResponseState): object | null {
  if (usage === null) return null;
  return {
    input_tokens: usage.prompt_tokens,
    input_tokens_details: { cached_tokens: usage.prompt_tokens_details.cached_tokens },
    output_tokens: usage.completion_tokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: usage.total_tokens,
    ...(usage.perigee !== undefined && { perigee: usage.perigee }),
  };
}
