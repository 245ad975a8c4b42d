/**
 * The private field `perigee` of chat and completions, by which a router of ours spares a worker
 * what it did itself, and moves a request from one worker to another: docs/design/migration.md.
 */
import { z } from "zod";
import type { GeneratedTokens, GenerateOptions } from "#engine";
import { boundedList, LIST_LIMITS } from "./bounded.ts";
import { isTokenIds } from "./fields.ts";
import { fieldError } from "./parse-request.ts";
import type { UsageCounter } from "./usage.ts";

/** The year 9999: a later time is no time. */
const CREATED_MAX = 253_402_300_799;
const HOST_LENGTH_MAX = 253;
const PORT_MAX = 65_535;
const DEADLINE_MS_MAX = 2 ** 31 - 1;

/** Ids as markers have them. Text, because a list of a million numbers is a million values. */
const idText = z
  .string()
  .refine(isIdText, "must be token ids with commas between them, as markers have them");

const common = {
  markers: z.boolean().nullish(),
  seed: z.int().min(0).nullish(),
  created: z.int().min(0).max(CREATED_MAX).nullish(),
  continue: boundedList(z.strictObject({ token_ids: idText, ended: z.boolean().nullish() }), {
    ...{ min: 1, max: LIST_LIMITS.continue },
  }).nullish(),
  /** How often the worker's role had changed, as its router knew: read before all else. */
  role_epoch: z.int().min(0).nullish(),
  cached_tokens: z.int().min(0).nullish(),
  kv_source: z
    .strictObject({
      host: z.string().min(1).max(HOST_LENGTH_MAX),
      port: z.int().min(1).max(PORT_MAX),
      compute: z.boolean().nullish(),
      deadline_ms: z.int().min(1).max(DEADLINE_MS_MAX).nullish(),
      prefix: z
        .strictObject({
          host: z.string().min(1).max(HOST_LENGTH_MAX),
          port: z.int().min(1).max(PORT_MAX),
        })
        .nullish(),
    })
    .nullish(),
};

/** Of completions, whose `prompt` may be ids. */
export const completionsPerigee = z.strictObject(common).nullish();

/** Of chats. */
export const chatPerigee = z
  .strictObject({
    prompt_token_ids: z.custom<number[]>(isTokenIds, "must be a list of token ids").nullish(),
    ...common,
  })
  .nullish();

const { seed, created, role_epoch, kv_source } = common;

/** Of responses, which no other worker goes on with. */
export const responsesPerigee = z.strictObject({ seed, created, role_epoch, kv_source }).nullish();

type PerigeeField = z.output<typeof completionsPerigee>;

/** A request's part of the field that concerns its choices. */
interface ChoicesRequest {
  readonly stream?: boolean | null | undefined;
  readonly perigee?: PerigeeField;
}

/** What another worker generated of an answer. */
export interface EarlierAnswer {
  /** By prompt, then by sequence. */
  readonly generated: readonly (readonly GeneratedTokens[])[];
  /**
   * Prompt tokens that it found in its cache, of the prompts that it began; null: what this worker
   * finds counts.
   */
  readonly cachedTokens: number | null;
}

/** Where keys and values of a request come from, as an option of the model. */
export function kvSourceOption(perigee: PerigeeField): Pick<GenerateOptions, "kvSource"> {
  const source = perigee?.kv_source ?? null;
  if (source === null) return {};
  const { host, port, compute, deadline_ms: deadlineMs, prefix } = source;
  return {
    kvSource: {
      ...{ host, port, compute: compute ?? false },
      ...(deadlineMs != null && { deadlineMs }),
      ...(prefix != null && { prefix }),
    },
  };
}

/** How many choices a request has. */
export interface ChoiceCounts {
  readonly prompts: number;
  /** Of each prompt. */
  readonly n: number;
  readonly isBeamSearch: boolean;
}

/**
 * What a request continues; null: it begins here, also where nothing has been generated yet. Throws
 * INVALID_ARGUMENT.
 */
export function earlierAnswer(request: ChoicesRequest, counts: ChoiceCounts): EarlierAnswer | null {
  const { stream, perigee } = request;
  const choices = perigee?.continue ?? null;
  if (choices === null) return null;
  const { prompts, n, isBeamSearch } = counts;
  if (stream !== true) throw unusable("needs stream to be true: others are sent again as they are");
  if (isBeamSearch) throw unusable("a beam search cannot go on: send it again without");
  if (choices.length !== prompts * n) {
    throw unusable(`must have an entry for each of ${prompts * n} choices, has ${choices.length}`);
  }
  const sequences = choices.map(({ token_ids: text, ended }) => ({
    tokenIds: idsOf(text),
    ended: ended === true,
  }));
  if (sequences.every(({ tokenIds, ended }) => !ended && tokenIds.length === 0)) return null;
  const generated = Array.from({ length: prompts }, (_, prompt) =>
    sequences.slice(prompt * n, (prompt + 1) * n),
  );
  return { generated, cachedTokens: perigee?.cached_tokens ?? null };
}

/** Counts what the other worker found of the prompts that it began, where it is said. */
export function resumeUsage(usage: UsageCounter, { generated, cachedTokens }: EarlierAnswer): void {
  if (cachedTokens === null) return;
  const begun = generated.flatMap((sequences, prompt) => (sequences.some(isBegun) ? [prompt] : []));
  usage.resume(new Set(begun), cachedTokens);
}

/** The error for a field `continue` that cannot be used. */
export function unusable(why: string): Error {
  return fieldError("perigee.continue", why);
}

/** Whether nothing is left to be generated of a prompt. */
export function isOver(generated: readonly GeneratedTokens[]): boolean {
  return generated.every(({ ended }) => ended === true);
}

/** Whether a sequence has been seen by the client. */
export function isBegun({ tokenIds, ended }: GeneratedTokens): boolean {
  return tokenIds.length > 0 || ended === true;
}

/** Digits with single commas between them; by hand, because the text may be long. */
function isIdText(text: string): boolean {
  let digits = 0;
  for (let place = 0; place < text.length; place++) {
    const unit = text.charCodeAt(place);
    if (unit === COMMA && digits > 0) digits = 0;
    else if (unit >= ZERO && unit <= ZERO + 9 && digits < DIGITS_MAX) digits++;
    else return false;
  }
  return text === "" || digits > 0;
}

const COMMA = 0x2c;
const ZERO = 0x30;
/** Of a token id: larger numbers are in no vocabulary. */
const DIGITS_MAX = 9;

function idsOf(text: string): number[] {
  return text === "" ? [] : text.split(",").map(Number);
}
