/** The body that a worker gets. */
import { isPlainObject } from "#base";
import type { WorkerInfo } from "#cluster/protocol";
import type { KvSource } from "#cluster/routing";
import { type GenerationRequest, isSteered } from "./generation-request.ts";
import type { ChoiceProgress } from "./marker-reader.ts";

/** Fields of the private object `perigee` (docs/design/migration.md). */
export interface PrivateFields {
  /** By prompt, where the router has rendered and encoded them; null: the worker does. */
  readonly promptTokenIds: readonly (readonly number[])[] | null;
  /** Draws of choice c have this seed + c, unless the body has its own. */
  readonly seed: number;
  /** Unix time in seconds. */
  readonly created: number;
  /** Set where an earlier worker has begun. */
  readonly progress: readonly ChoiceProgress[] | null;
  readonly cachedTokens: number;
  /** Who gives keys and values of the prompt; null: no worker. */
  readonly kvSource: Pick<KvSource, "address" | "compute" | "prefix"> | null;
  /** By which it was routed; null: the worker's role does not change. */
  readonly roleEpoch: number | null;
}

/** Whether a request's stream tells its tokens beside its events: another worker can go on. */
export function isMarked({ kind, stream, isPrivate }: GenerationRequest): boolean {
  return stream && !isPrivate && isSteered(kind) && kind !== "responses";
}

/** Workers with a fingerprint read the private field. */
export function isMarkable({ kind, fingerprint }: WorkerInfo): boolean {
  return kind === "perigee" && fingerprint !== null;
}

/** The client's JSON with the private object before its first field. Nothing else is changed. */
export function markedBody(request: GenerationRequest, fields: PrivateFields): string {
  const own = privateJson(request, fields);
  const { promptTokenIds: ids } = fields;
  if (ids !== null && !showsPrompt(request)) return withIds(request, own, ids);
  return withFirstField(request.text, `"perigee":${own}`);
}

/** The same for a response, which no other worker goes on with. */
export function routedBody(
  { text }: GenerationRequest,
  fields: Pick<PrivateFields, "seed" | "created" | "kvSource" | "roleEpoch">,
): string {
  return withFirstField(text, `"perigee":{${routedFields(fields).join(",")}}`);
}

/** The JSON of an object with one more field before all others. */
export function withFirstField(json: string, field: string): string {
  const open = json.indexOf("{") + 1;
  const isEmpty = /^\s*\}/.test(json.slice(open, open + 64));
  return `${json.slice(0, open)}${field}${isEmpty ? "" : ","}${json.slice(open)}`;
}

/** SGLang looks at the field `lora_path` alone, and would answer with the base model. */
export function foreignBody(request: GenerationRequest, info: WorkerInfo): string {
  const { model, isBatch } = request;
  // Those of other engines know no such class, and may refuse any priority.
  const { priority: _class, ...unclassed } = request.body;
  const body = isBatch ? unclassed : request.body;
  const text = isBatch ? JSON.stringify(unclassed) : request.text;
  if (info.kind !== "sglang" || model === null || !info.adapters?.includes(model)) return text;
  if ((body.lora_path ?? null) !== null) return text;
  if (!Object.hasOwn(body, "lora_path")) {
    return withFirstField(text, `"lora_path":${JSON.stringify(model)}`);
  }
  return JSON.stringify({ ...body, lora_path: model });
}

/** An echo is the prompt as it was written, which ids may not spell. */
function showsPrompt({ kind, body }: GenerationRequest): boolean {
  return kind === "completions" && body.echo === true;
}

/** A worker that has the ids reads of a conversation no more than its last message. */
function withIds(
  { kind, body }: GenerationRequest,
  own: string,
  prompts: readonly (readonly number[])[],
): string {
  const ids = prompts.map((list) => `[${list.join(",")}]`);
  if (kind === "chat") {
    const messages = Array.isArray(body.messages) ? body.messages.slice(-1) : body.messages;
    const { length } = own;
    const withPrompt = `${own.slice(0, length - 1)},"prompt_token_ids":${ids[0]}}`;
    return `{"perigee":${withPrompt},${JSON.stringify({ ...body, messages }).slice(1)}`;
  }
  const { prompt: _text, ...rest } = body;
  const json = JSON.stringify(rest);
  const comma = json === "{}" ? "" : ",";
  return `{"perigee":${own},"prompt":[${ids.join(",")}]${comma}${json.slice(1)}`;
}

function privateJson({ stream }: GenerationRequest, fields: PrivateFields): string {
  const { progress, cachedTokens } = fields;
  const parts = routedFields(fields);
  if (stream) parts.push('"markers":true');
  if (progress !== null) {
    const choices = progress.map(({ ids, ended }) => `{"token_ids":"${ids}","ended":${ended}}`);
    parts.push(`"continue":[${choices.join(",")}]`, `"cached_tokens":${cachedTokens}`);
  }
  return `{${parts.join(",")}}`;
}

function routedFields({
  seed,
  created,
  kvSource,
  roleEpoch,
}: Pick<PrivateFields, "seed" | "created" | "kvSource" | "roleEpoch">): string[] {
  const parts = [`"seed":${seed}`, `"created":${created}`];
  if (kvSource !== null) {
    const { address, compute, prefix } = kvSource;
    const from = prefix === null ? {} : { prefix };
    parts.push(`"kv_source":${JSON.stringify({ ...address, compute, ...from })}`);
  }
  if (roleEpoch !== null) parts.push(`"role_epoch":${roleEpoch}`);
  return parts;
}

/** What a failed worker's answer says, for the log: OpenAI's error, or its first characters. */
export function answerText(body: Buffer): string {
  const text = body.toString("utf8", 0, 2000);
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    const error = isPlainObject(value) ? (value.error ?? value.detail ?? value.message) : null;
    if (isPlainObject(error) && typeof error.message === "string") return error.message;
    if (typeof error === "string") return error;
  } catch {
    return text.slice(0, 200);
  }
  return text.slice(0, 200);
}
