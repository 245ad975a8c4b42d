/** Chats that search files: read as a question, answered by the server's `FileSearch`. */
import type { Call, ServerContext } from "../context.ts";
import type { Answer } from "./answer.ts";
import type { ChatRequest } from "./chat-request.ts";
import { ChunkWriter } from "./chunk-writer.ts";
import { streamUsage } from "./delivery.ts";
import type {
  FileCitation,
  FileSearch,
  FileSearchEvent,
  FileSearchRequest,
  FileSearchTool,
  SearchedTurn,
} from "./file-search.ts";
import { fieldError } from "./parse-request.ts";
import { chunkUsage } from "./usage.ts";

/** The tool of a request that is to be run; null: there is none, or the client forbids tools. */
export function searchToolOf({ tools, tool_choice: choice }: ChatRequest): FileSearchTool | null {
  if (choice === "none") return null;
  const found = (tools ?? []).filter((tool) => tool.type === "file_search");
  const [tool] = found;
  if (tool === undefined) return null;
  if (found.length < (tools ?? []).length || found.length > 1) {
    throw fieldError("tools", "file_search must stand alone: leave the other tools out");
  }
  if (typeof choice === "object" && choice?.type === "function") {
    throw fieldError("tool_choice", "must name one of the tools; leave it out");
  }
  return tool;
}

/** Who answers from files, and what is asked. */
export interface SearchedQuestion {
  readonly search: FileSearch;
  readonly question: FileSearchRequest;
}

/** Throws INVALID_ARGUMENT without a store, and for a field without effect. */
export function fileSearchOf(
  context: ServerContext,
  { request, tool }: { readonly request: ChatRequest; readonly tool: FileSearchTool },
  signal: AbortSignal,
): SearchedQuestion {
  const search = context.extension?.fileSearch ?? null;
  if (search === null) {
    throw fieldError(
      "tools",
      "file_search needs a store of documents, this server has none; start it with " +
        "`perigee serve --rag-store DIR`",
    );
  }
  checkFields(request);
  return { search, question: questionOf(request, tool, signal) };
}

/** Answers from files. Throws as `fileSearchOf` does. */
export function fileSearchAnswer(
  context: ServerContext,
  asked: { readonly request: ChatRequest; readonly tool: FileSearchTool },
  call: Call,
): Promise<Answer> {
  const { request } = asked;
  const { search, question } = fileSearchOf(context, asked, call.signal);
  const answering = { context, request, call, events: search.answer(question) };
  if (request.stream !== true) return whole(answering);
  return Promise.resolve({ kind: "events", events: chunksOf(answering) });
}

/** One answer in the making. */
interface Answering {
  readonly context: ServerContext;
  readonly request: ChatRequest;
  readonly call: Call;
  readonly events: ReturnType<FileSearch["answer"]>;
}

function headOf({ context, request, call }: Answering) {
  const modelName = request.model ?? context.modelNames[0];
  return { id: `chatcmpl-${call.id}`, created: call.created, modelName };
}

async function whole(answering: Answering): Promise<Answer> {
  const { call, events } = answering;
  const { id, created, modelName } = headOf(answering);
  let content = "";
  const annotations: object[] = [];
  let reason = "stop";
  for await (const event of events) {
    if (event.type === "text") content += event.text;
    else if (event.type === "citation") annotations.push(annotation(event.citation));
    else if (event.type === "end") reason = ended(event, call);
  }
  const message = { role: "assistant", content, refusal: null, annotations };
  const choice = { index: 0, message, logprobs: null, finish_reason: reason };
  const usage = call.usage.usage();
  const common = { id, object: "chat.completion", created, model: modelName };
  return { kind: "json", value: { ...common, choices: [choice], usage } };
}

async function* chunksOf(answering: Answering): AsyncGenerator<string> {
  const { request, call, events } = answering;
  const { usage } = call;
  const wanted = streamUsage(request);
  const chunks = new ChunkWriter(headOf(answering), "chat.completion.chunk");
  const write = (delta: object, reason: string | null = null) => {
    const choice = { index: 0, delta, logprobs: null, finish_reason: reason };
    return chunks.write(choice, chunkUsage(usage, wanted));
  };
  let opened = false;
  for await (const event of events) {
    // The first event is there: a search that failed is still a plain HTTP answer.
    if (!opened) yield write({ role: "assistant", content: "" });
    opened = true;
    if (event.type === "text") yield write({ content: event.text });
    else if (event.type === "citation") yield write({ annotations: [annotation(event.citation)] });
    else if (event.type === "end") yield write({}, ended(event, call));
  }
  if (wanted.atEnd) yield chunks.write(null, { usage: usage.usage() });
}

/** Counts the answer's tokens; its finish reason. */
function ended(event: Extract<FileSearchEvent, { readonly type: "end" }>, { usage }: Call): string {
  usage.answered(event);
  return event.finishReason;
}

/** In the form of OpenAI's Responses. */
function annotation({ fileId, filename, index }: FileCitation): object {
  return { type: "file_citation", file_id: fileId, filename, index };
}

/** Fields that mean something for such an answer, or never mean anything. */
const FIELDS: ReadonlySet<string> = new Set([
  ...["messages", "tools", "tool_choice", "parallel_tool_calls", "model", "request_id"],
  ...["stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "seed"],
  ...["cache_salt", "user", "store", "metadata", "service_tier", "safety_identifier", "modalities"],
  ...["prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "reasoning_effort"],
  ...["verbosity", "include_reasoning", "deadlines"],
]);
/** Values of other fields that ask for nothing. */
const NEUTRAL: Readonly<Record<string, unknown>> = {
  n: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  repetition_penalty: 1,
  truncation_side: "left",
  separate_reasoning: true,
  stream_reasoning: true,
};

/** Throws INVALID_ARGUMENT for a field that would be ignored. */
function checkFields(request: ChatRequest): void {
  for (const [name, value] of Object.entries(request)) {
    if (FIELDS.has(name) || value === null || value === undefined || value === false) continue;
    if (NEUTRAL[name] === value) continue;
    if (name === "response_format" && isText(value)) continue;
    throw fieldError(name, "has no effect on answers from file_search; leave it out");
  }
}

function isText(format: unknown): boolean {
  return (format as ChatRequest["response_format"])?.type === "text";
}

function questionOf(
  request: ChatRequest,
  tool: FileSearchTool,
  signal: AbortSignal,
): FileSearchRequest {
  const { max_completion_tokens: newer, max_tokens: older } = request;
  return {
    ...conversation(request.messages),
    ...{ tool, signal, maxTokens: newer ?? older ?? null },
    temperature: request.temperature ?? null,
    seed: request.seed ?? null,
    cacheSalt: request.cache_salt ?? null,
  };
}

/** The last question, the turns before it, and what system messages say. */
function conversation(messages: ChatRequest["messages"]): {
  readonly question: string;
  readonly turns: readonly SearchedTurn[];
  readonly instructions: string | null;
} {
  const instructions: string[] = [];
  const turns: SearchedTurn[] = [];
  let asked: string[] = [];
  for (const [place, message] of messages.entries()) {
    const text = textOf(message.content);
    if (message.role === "system" || message.role === "developer") instructions.push(text);
    else if (message.role === "user") asked.push(text);
    else if (message.role === "assistant" && (message.tool_calls ?? []).length === 0) {
      turns.push({ question: asked.join("\n"), answer: text });
      asked = [];
    } else {
      throw fieldError(`messages[${place}]`, "file_search reads no calls of other tools");
    }
  }
  if (asked.length === 0) throw fieldError("messages", "must end with a question of the user");
  return {
    ...{ question: asked.join("\n"), turns },
    instructions: instructions.length === 0 ? null : instructions.join("\n\n"),
  };
}

function textOf(content: ChatRequest["messages"][number]["content"]): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => ("text" in part ? part.text : part.refusal)).join("\n");
}
