/** The options of a call, checked and parsed once for all of its prompts. */

import { EngineError, valueText } from "#base";
import {
  type DraftLimits,
  draftsOfKind,
  type EngineRequest,
  type GenerateOptions,
} from "#engine/protocol";
import { parseRetention, type RetentionConfig, retentionWarning } from "#kvcache";
import type { SamplingParams } from "#sampling";
import { kvSourceOf } from "./kv-source-check.ts";
import type { ModelText } from "./model-text.ts";
import {
  checkCount,
  checkSignal,
  checkText,
  parseSampling,
  plainParams,
  wrongKind,
} from "./request-check.ts";

/** Limits that options are checked against. */
export interface OptionScope {
  readonly text: ModelText;
  readonly vocabularySize: number;
  /** Most tokens of a sequence. */
  readonly contextTokensMax: number;
  /** Bytes of one block of the cache on the device; 0: there is none. */
  readonly bytesPerBlock: number;
  /** Most sequences of one request: as many as may wait. */
  readonly sequencesMax: number;
  readonly warn: (message: string) => void;
  /** Whether keys and values can come from other engines. */
  readonly canFetchKv: boolean;
  /** The drafts that the model was loaded with, the usual ones first. */
  readonly drafts: readonly DraftLimits[];
  /** Whether lookup drafts beside a network, unless a request names a kind. */
  readonly mixedDrafts: boolean;
}

/** The fields of a posted request that differ between the prompts of a call. */
type PromptFields = "key" | "requestId" | "promptTokenIds" | "seed" | "promptLogits";

/** The fields that the posted requests of a call share. Rejects with INVALID_ARGUMENT. */
export async function checkOptions(
  options: GenerateOptions,
  scope: OptionScope,
): Promise<Omit<EngineRequest, PromptFields>> {
  const { text, vocabularySize, sequencesMax, warn } = scope;
  checkKinds(options);
  const { signal, requestId, cacheSalt, retention, priority, kvSource, ...rest } = options;
  const { returnKvByteSeconds: _, ...sampling } = rest;
  const source = kvSourceOf({ ...(kvSource != null && { kvSource }) }, scope.canFetchKv);
  const params = parseSampling(sampling, vocabularySize);
  checkCount(params, sequencesMax);
  requireTokenizer(params, text);
  return {
    params: plainParams(params),
    cacheSalt: cacheSalt ?? null,
    retention: retentionOf(retention, warn),
    priority: priority ?? 0,
    ...(source !== null && { kvSource: source }),
    badWordTokenIds: await text.badWords(params.badWords, signal),
    thinking: params.thinkingTokenBudget === null ? null : text.thinkingMarks(),
    ...(await draftsOf(params, scope, { signal, cacheSalt: cacheSalt ?? null })),
  };
}

/** What is drafted for the request, and what its prediction is. */
async function draftsOf(
  params: SamplingParams,
  { text, drafts: loaded, mixedDrafts, contextTokensMax }: OptionScope,
  { signal, cacheSalt }: { signal: AbortSignal | undefined; cacheSalt: string | null },
): Promise<Pick<EngineRequest, "draftShape" | "predictedTokenIds">> {
  const { speculative: wanted, prediction } = params;
  const own: WantedDrafts = typeof wanted === "boolean" ? {} : wanted;
  // A prediction is a text to look up in.
  const usual = prediction === null ? loaded[0]?.kind : "lookup";
  const kind = own.kind ?? usual;
  const found = kind === undefined ? null : draftsOfKind(loaded, kind);
  checkDrafts(own, loaded, found);
  if (wanted === false || found === null) return { draftShape: null, predictedTokenIds: null };
  const ids = prediction === null ? null : await text.encode(prediction, signal, cacheSalt);
  const { lengthMax, width } = found;
  // What a grammar forces is as likely to be right as what is found by lookup.
  const lookedUp = draftsOfKind(loaded, "lookup")?.lengthMax ?? lengthMax;
  const isMixed = mixedDrafts && own.kind === undefined && found.kind !== "lookup";
  return {
    draftShape: {
      ...{ kind: found.kind, length: own.length ?? lengthMax, width: own.width ?? width },
      ...(params.structuredOutput !== null && { forcedMax: own.length ?? lookedUp }),
      ...(isMixed && { besideMax: own.length ?? lookedUp }),
    },
    // More than a sequence can have is never reached.
    predictedTokenIds: ids === null ? null : Int32Array.from(ids).slice(0, contextTokensMax),
  };
}

interface WantedDrafts {
  readonly kind?: string | undefined;
  readonly length?: number | undefined;
  readonly width?: number | undefined;
}

function checkDrafts(
  wanted: WantedDrafts,
  loaded: readonly DraftLimits[],
  found: DraftLimits | null,
): void {
  const { kind } = wanted;
  if (kind !== undefined && found === null) {
    const kinds = loaded.map((drafts) => drafts.kind).join(" and ");
    const there = loaded.length === 0 ? "none is (speculative.kind)" : `loaded: ${kinds}`;
    const message = `Cannot draft by ${valueText(kind)}: it must be loaded, ${there}`;
    throw new EngineError("INVALID_ARGUMENT", message, { param: "speculative.kind" });
  }
  if (found === null) return;
  checkMost("speculative.length", wanted.length, "speculative.lengthMax", found.lengthMax);
  checkMost("speculative.width", wanted.width, "speculative.width", found.width);
}

/** `setting`: the option of the loaded model that sets the most. */
function checkMost(param: string, value: number | undefined, setting: string, most: number): void {
  if (value === undefined || value <= most) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${param}: must be at most ${most} (${setting} of the model), ` +
      `current value is ${value}`,
    { param },
  );
}

/** JavaScript callers may pass any values, and all callers share the engine. */
function checkKinds(options: GenerateOptions): void {
  const { cacheSalt, priority, requestId, signal, returnKvByteSeconds: tells } = options;
  checkSignal(signal);
  checkText("cacheSalt", cacheSalt);
  checkText("requestId", requestId);
  if (priority !== undefined && priority !== null && !Number.isSafeInteger(priority)) {
    throw wrongKind("priority", "an integer", priority);
  }
  if (tells !== undefined && typeof tells !== "boolean") {
    throw wrongKind("returnKvByteSeconds", "true or false", tells);
  }
}

/** The checked retention; one that cannot take effect as written is used with a warning. */
function retentionOf(
  options: GenerateOptions["retention"],
  warn: (message: string) => void,
): RetentionConfig | null {
  if (options === undefined) return null;
  const retention = parseRetention(options);
  const warning = retentionWarning(retention);
  if (warning !== null) warn(warning);
  return retention;
}

function requireTokenizer(params: SamplingParams, text: ModelText): void {
  if (params.stop.length > 0) text.require("watch for stop strings");
  if (params.structuredOutput !== null) text.require("constrain the output");
  if (params.prediction !== null) text.require("predict the output");
}
