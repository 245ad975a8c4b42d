/** POST /v1/embeddings. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { z } from "zod";
import { beginning, type EmbedResult, type Prompt, type TextFrame } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import type { Answer } from "./answer.ts";
import { checkModelName } from "./delivery.ts";
import { deliveryFields, ignoredFields } from "./fields.ts";
import { fieldError, parseRequest } from "./parse-request.ts";
import { encodePrompts, promptField } from "./prompts.ts";

/** Numbers written per turn of the event loop: 2,048 vectors at once blocked streams for 0.5 s. */
const NUMBERS_AT_ONCE = 2 ** 13;

/** Body of POST /v1/embeddings. */
export const EmbeddingsRequest = z.strictObject({
  input: promptField,
  model: deliveryFields.model,
  encoding_format: z.enum(["float", "base64"]).nullish(),
  dimensions: z.int().positive().nullish(),
  truncate_prompt_tokens: deliveryFields.truncate_prompt_tokens,
  priority: deliveryFields.priority,
  request_id: deliveryFields.request_id,
  ...ignoredFields,
});
export type EmbeddingsRequest = z.output<typeof EmbeddingsRequest>;

export async function embeddings(
  context: ServerContext,
  body: unknown,
  call: Call,
): Promise<Answer> {
  const request = parseRequest(EmbeddingsRequest, body);
  checkModelName(context, request.model);
  checkDimensions(context, request.dimensions ?? null);
  const inputs = await prepareInputs(context, request, call);
  const results = await context.model.embed(inputs, { signal: call.signal });
  countTokens(results, call);
  const { prompt_tokens, total_tokens } = call.usage.usage();
  const head = {
    id: `embd-${call.id}`,
    object: "list",
    created: call.created,
    model: request.model ?? context.modelNames[0],
  };
  const json = await answerBytes(head, { prompt_tokens, total_tokens }, { results, request, call });
  return { kind: "bytes", json };
}

/** The data of the answer. */
interface Writing {
  readonly results: readonly EmbedResult[];
  readonly request: EmbeddingsRequest;
  readonly call: Call;
}

/** JSON of `head` with `data`, a list of the results, and `usage`; yields to other requests. */
async function answerBytes(
  head: object,
  usage: object,
  { results, request, call }: Writing,
): Promise<Buffer> {
  const list = await listBytes(results, call, (result, index) => ({
    ...{ object: "embedding", index, embedding: encoded(result, request) },
  }));
  const before = Buffer.from(`${JSON.stringify(head).slice(0, -1)},"data":[`);
  return Buffer.concat([before, list, Buffer.from(`],"usage":${JSON.stringify(usage)}}`)]);
}

/** JSON of the list's items, with commas between them; yields to other requests. */
async function listBytes(
  results: readonly EmbedResult[],
  { signal }: Call,
  itemOf: (result: EmbedResult, index: number) => unknown,
): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let text = "";
  let numbers = 0;
  for (const [index, result] of results.entries()) {
    text += `${index === 0 ? "" : ","}${JSON.stringify(itemOf(result, index))}`;
    numbers += result.embedding.length;
    if (numbers < NUMBERS_AT_ONCE) continue;
    pieces.push(Buffer.from(text));
    [text, numbers] = ["", 0];
    await nextTurn();
    signal.throwIfAborted();
  }
  return Buffer.concat([...pieces, Buffer.from(text)]);
}

/** Texts to embed, of another API. */
export interface TextVectors {
  readonly texts: string[];
  readonly dimensions?: number | null | undefined;
  /** Texts that are too long are cut; they are refused otherwise. */
  readonly isCut: boolean;
}

/** The texts' vectors in JSON, with commas between them. Counts their tokens. */
export async function textVectors(
  context: ServerContext,
  call: Call,
  { texts, dimensions = null, isCut }: TextVectors,
): Promise<Buffer> {
  checkDimensions(context, dimensions);
  if (texts.length === 0) return Buffer.alloc(0);
  const truncated = isCut ? { truncate_prompt_tokens: -1 } : {};
  const request: EmbeddingsRequest = { input: texts, dimensions, ...truncated };
  const inputs = await prepareInputs(context, request, call);
  const results = await context.model.embed(inputs, { signal: call.signal });
  countTokens(results, call);
  return listBytes(results, call, (result) => encoded(result, request));
}

function countTokens(results: readonly EmbedResult[], { usage }: Call): void {
  results.forEach(({ promptTokenIds }, index) => {
    usage.add(index, { promptTokenIds, cachedTokens: 0, promptLogprobs: null }, 0);
  });
}

function checkDimensions({ model }: ServerContext, dimensions: number | null): void {
  const most = model.info.embedding?.dimensions ?? model.info.hiddenSize;
  if (dimensions === null || dimensions <= most) return;
  throw fieldError("dimensions", `must be at most ${most}, current value is ${dimensions}`);
}

async function prepareInputs(
  { model }: ServerContext,
  request: EmbeddingsRequest,
  { signal }: Call,
): Promise<Prompt[]> {
  const { truncate_prompt_tokens: wanted } = request;
  const tokensMax = model.info.embedding?.tokensMax ?? model.info.contextTokensMax;
  const encoded = await encodePrompts(model.codec, request.input, {
    addSpecialTokens: true,
    param: "input",
    signal,
  });
  if (wanted == null) return encoded.map(({ tokenIds }) => ({ promptTokenIds: tokenIds }));
  const frame = model.codec?.frame ?? { before: [], after: [] };
  const kept = wanted === -1 ? tokensMax : Math.max(1, wanted);
  return encoded.map(({ tokenIds }) => ({ promptTokenIds: truncated(tokenIds, kept, frame) }));
}

/** Throws INVALID_ARGUMENT if special tokens leave no room for text. */
function truncated(ids: number[], kept: number, frame: TextFrame): number[] {
  const first = beginning(ids, kept, frame);
  if (first !== null) return first;
  const special = frame.before.length + frame.after.length;
  throw fieldError(
    "truncate_prompt_tokens",
    `must be at least ${special + 1} (${special} special tokens stand around every text), ` +
      `current value is ${kept}`,
  );
}

/** The vector's first `dimensions`, normalized again if truncated, in the requested encoding. */
function encoded({ embedding }: EmbedResult, request: EmbeddingsRequest): number[] | string {
  const dimensions = request.dimensions ?? embedding.length;
  const vector =
    dimensions < embedding.length ? normalized(embedding.slice(0, dimensions)) : embedding;
  if (request.encoding_format !== "base64") return Array.from(vector);
  const bytes = Buffer.alloc(vector.length * 4);
  vector.forEach((value, i) => {
    bytes.writeFloatLE(value, i * 4);
  });
  return bytes.toString("base64");
}

function normalized(vector: Float32Array): Float32Array {
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((value) => value / length);
}
