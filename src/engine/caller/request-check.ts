import { EngineError, fieldNames, invalidSetting, issueText } from "#base";
import type { ChatCallOptions, GenerateOptions, Prompt } from "#engine/protocol";
import { paramsOf, type SamplingOptions, SamplingParams, type StructuredOutput } from "#sampling";

/** Options of a call beside those of sampling. */
const CALL_FIELDS: readonly (keyof GenerateOptions | keyof ChatCallOptions)[] = [
  ...(["signal", "cacheSalt", "retention", "priority", "kvSource", "requestId"] as const),
  ...(["returnKvByteSeconds", "tools", "toolChoice", "thinking", "roundsMax"] as const),
];

/** Fills in defaults, checks ranges and that ids are in the vocabulary. Throws INVALID_ARGUMENT. */
export function parseSampling(options: SamplingOptions, vocabularySize: number): SamplingParams {
  const params = paramsOf(options) ?? parsed(options);
  checkBeams(params, vocabularySize);
  const ids = {
    stopTokenIds: params.stopTokenIds,
    allowedTokenIds: params.allowedTokenIds ?? [],
    logprobTokenIds: params.logprobTokenIds ?? [],
    shownTokenIds: params.shownTokenIds,
    logitBias: params.logitBias.map(({ token }) => token),
  };
  for (const [param, list] of Object.entries(ids)) checkVocabulary(param, list, vocabularySize);
  return params;
}

function parsed(options: SamplingOptions): SamplingParams {
  const result = SamplingParams.safeParse(options, { error: issueText });
  if (result.success) return result.data;
  throw invalidSetting(result.error, options, [...fieldNames(SamplingParams), ...CALL_FIELDS]);
}

/**
 * The same parameters without what the other thread must not get: texts, and objects of the caller,
 * such as functions in a JSON schema, that cannot be cloned. Requests are posted together, and with
 * one that cannot be cloned each has to be posted again, alone. Throws GRAMMAR_INVALID.
 */
export function plainParams(params: SamplingParams): SamplingParams {
  const { structuredOutput } = params;
  const plain = structuredOutput === null ? null : plainStructure(structuredOutput);
  return { ...params, extraArgs: null, prediction: null, structuredOutput: plain };
}

function plainStructure(output: StructuredOutput): StructuredOutput {
  if (output.json !== undefined) return { json: jsonText(output.json) };
  if (output.structuralTag === undefined) return output;
  return { structuralTag: jsonText(output.structuralTag) };
}

function jsonText(value: unknown): string {
  if (typeof value === "string") return value;
  let [text, cause]: [string | undefined, unknown] = [undefined, null];
  try {
    text = JSON.stringify(value);
  } catch (error) {
    cause = error;
  }
  if (text !== undefined) return text;
  throw new EngineError(
    "GRAMMAR_INVALID",
    "Cannot compile the grammar: it must be an object that can be written as JSON, it is not",
    { cause, param: "structured_output" },
  );
}

/** Refuses `n` or a beam width above the queue's limit. Throws INVALID_ARGUMENT. */
export function checkCount(params: SamplingParams, sequencesMax: number): void {
  const { n, beamWidth } = params;
  const [param, count] = beamWidth === null ? ["n", n] : ["beamWidth", beamWidth];
  if (count <= sequencesMax) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${param}: must be at most ${sequencesMax} (waitingSequencesMax), ` +
      `current value is ${count}; ask for fewer`,
    { param },
  );
}

/** Each beam needs a token to continue with and one in reserve, as in transformers. */
function checkBeams({ beamWidth }: SamplingParams, vocabularySize: number): void {
  const most = Math.floor(vocabularySize / 2);
  if (beamWidth === null || beamWidth <= most) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use beamWidth: must be at most half the vocabulary (${most}), ` +
      `current value is ${beamWidth}`,
    { param: "beamWidth" },
  );
}

/** JavaScript callers may pass options as a model. Throws INVALID_ARGUMENT. */
export function checkModel(model: unknown): asserts model is string {
  if (typeof model === "string") return;
  const remedy = "options come behind it: LLM.load(bundledModel, options)";
  throw wrongKind("model", "a path or the name of a downloaded model", model, remedy);
}

/** JavaScript callers may pass any value as a prompt. Throws INVALID_ARGUMENT. */
export function checkPrompt(prompt: unknown): asserts prompt is Prompt {
  if (typeof prompt === "string") return;
  const { promptTokenIds } = (prompt ?? {}) as { promptTokenIds?: unknown };
  if (Array.isArray(promptTokenIds) || ArrayBuffer.isView(promptTokenIds)) return;
  throw wrongKind("prompt", "text or { promptTokenIds: [...] }", prompt, promptRemedy(prompt));
}

function promptRemedy(prompt: unknown): string | undefined {
  if (Array.isArray(prompt)) return "give one prompt, or call generate() or streams() for a list";
  const isMessage = typeof prompt === "object" && prompt !== null && "role" in prompt;
  return isMessage ? "give conversations to chat(), or to chatPrompt() first" : undefined;
}

/** Throws INVALID_ARGUMENT. */
export function checkSignal(signal: unknown): asserts signal is AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw wrongKind("signal", "an AbortSignal", signal);
}

/** Longest salt and request id, in UTF-16 units: each block of a prompt stores its salt. */
const nameLengthMax = 1024;

/** Checks a name that a caller chose, if there is one. Throws INVALID_ARGUMENT. */
export function checkText(param: string, value: unknown): void {
  if (value === undefined || value === null) return;
  if (typeof value !== "string") throw wrongKind(param, "a string", value);
  const cannot = `Cannot use ${param}: must`;
  if (value === "") {
    const message = `${cannot} have at least one character; leave it out`;
    throw new EngineError("INVALID_ARGUMENT", message, { param });
  }
  if (value.length > nameLengthMax) {
    const message = `${cannot} have at most ${nameLengthMax} characters, it has ${value.length}`;
    throw new EngineError("INVALID_ARGUMENT", message, { param });
  }
  // The name is hashed as UTF-8, which replaces every lone surrogate by the same character: two
  // different names would be one.
  if (value.isWellFormed()) return;
  const message = `${cannot} be well-formed Unicode, it has half of a surrogate pair`;
  throw new EngineError("INVALID_ARGUMENT", message, { param });
}

/** The error for an option of the wrong type, perhaps with what to do. */
export function wrongKind(
  param: string,
  wanted: string,
  value: unknown,
  remedy?: string,
): EngineError {
  const end = remedy === undefined ? "" : `; ${remedy}`;
  const current = kindText(value) + end;
  const message = `Cannot use ${param}: must be ${wanted}, current value is ${current}`;
  return new EngineError("INVALID_ARGUMENT", message, { param });
}

/** Longer texts are rather prompts than words of an option. */
const SHOWN_UNITS_MAX = 24;

/** Numbers and short texts as they are, of other values the kind. */
function kindText(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object") return "an object";
  if (typeof value === "number") return String(value);
  const isWord = typeof value === "string" && value.length <= SHOWN_UNITS_MAX;
  return isWord ? JSON.stringify(value) : `a ${typeof value}`;
}

/** Shorter prompts are left to the engine, whose error also says what limits the context. */
const CHECKED_BY_ENGINE = 65_536;

/** Refuses millions of tokens that cannot fit the context, before they are copied. */
export function checkPromptLength(tokens: number, contextTokensMax: number): void {
  if (tokens <= Math.max(CHECKED_BY_ENGINE, contextTokensMax)) return;
  throw new EngineError(
    "PROMPT_TOO_LONG",
    `Cannot use prompt: it must fit the model's maximum context length of ${contextTokensMax} ` +
      `tokens, current value is ${tokens}; shorten it`,
    { param: "prompt" },
  );
}

/**
 * The ids of a prompt, at least one and all of them in the vocabulary, in an array of their own:
 * each is read once, and a caller may change its array later.
 */
export function checkedTokenIds(
  given: ArrayLike<number>,
  vocabularySize: number,
): Int32Array<ArrayBuffer> {
  const { length = 0 } = given;
  if (length === 0) {
    const message = "Cannot use prompt: wanted at least one token, got none";
    throw new EngineError("INVALID_ARGUMENT", message, { param: "prompt" });
  }
  return checkTokenIds("prompt", given, vocabularySize);
}

/** A list of ids in the vocabulary, in an array of its own. Throws INVALID_ARGUMENT. */
export function checkTokenIds(
  param: string,
  given: ArrayLike<number>,
  vocabularySize: number,
): Int32Array<ArrayBuffer> {
  const { length = 0 } = given;
  const ids = new Int32Array(length);
  // By index: there may be millions, and a typed array's view of them may be anything.
  for (let place = 0; place < length; place++) {
    const id = given[place];
    if (!isToken(id, vocabularySize)) throw unknownToken(param, id, vocabularySize);
    ids[place] = id;
  }
  return ids;
}

function checkVocabulary(param: string, ids: readonly number[], vocabularySize: number): void {
  const wrong = ids.findIndex((id) => !isToken(id, vocabularySize));
  if (wrong >= 0) throw unknownToken(param, ids[wrong], vocabularySize);
}

function unknownToken(param: string, id: unknown, vocabularySize: number): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${param}: token ids must be integers from 0 to ${vocabularySize - 1}, ` +
      `current value is ${id}`,
    { param },
  );
}

function isToken(id: number | undefined, vocabularySize: number): id is number {
  return id !== undefined && Number.isInteger(id) && id >= 0 && id < vocabularySize;
}
