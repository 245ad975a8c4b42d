import { TokenList } from "#base";

/** Why a sequence ended. The engine's `FinishReason`. */
export type EndReason = "stop" | "length" | "abort" | "error";

/** How a sequence ended. */
export interface SequenceEnd {
  readonly reason: EndReason;
  /** The stop string or token id; "repetition"; null for end tokens and the other reasons. */
  readonly stopReason: string | number | null;
}

/** Ends a sequence whose last tokens repeat one pattern. */
export interface RepetitionRule {
  readonly patternTokensMin: number;
  readonly patternTokensMax: number;
  /** How many times in a row, at least 2. */
  readonly count: number;
}

/**
 * When a sequence ends by itself. Stop strings are checked in the decoded text, outside of the
 * scheduler: that side calls `finish`.
 */
export interface StopRules {
  /** Most new tokens; null: up to the context. */
  readonly maxTokens: number | null;
  /** No end by token or repetition before this many new tokens. */
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  /** The model's end tokens. */
  readonly eosTokenIds: ReadonlySet<number>;
  /** The request's own; `ignoreEos` does not affect them. */
  readonly stopTokenIds: ReadonlySet<number>;
  readonly repetition: RepetitionRule | null;
}

/** No rules: a sequence ends at the context only. */
export const NO_STOP_RULES: StopRules = {
  maxTokens: null,
  minTokens: 0,
  ignoreEos: false,
  eosTokenIds: new Set(),
  stopTokenIds: new Set(),
  repetition: null,
};

/** The limits of a sequence beside its own rules. */
export interface StopContext {
  readonly promptLength: number;
  /** Most tokens of a sequence, prompt included. */
  readonly contextTokensMax: number;
}

/**
 * Whether the newest of `tokens`, at least one of which was sampled, is the last. End tokens come
 * before stop tokens, these before lengths, and repetition comes last.
 */
export function endAfterNewest(
  tokens: TokenList,
  rules: StopRules,
  context: StopContext,
): SequenceEnd | null {
  const newest = tokens.get(tokens.length - 1);
  const generated = tokens.length - context.promptLength;
  const mayStop = generated >= rules.minTokens;
  if (mayStop && !rules.ignoreEos && rules.eosTokenIds.has(newest)) {
    return { reason: "stop", stopReason: null };
  }
  if (mayStop && rules.stopTokenIds.has(newest)) return { reason: "stop", stopReason: newest };
  if (generated >= generatedTokensMax(rules, context)) {
    return { reason: "length", stopReason: null };
  }
  if (mayStop && rules.repetition !== null && repeats(tokens, generated, rules.repetition)) {
    return { reason: "stop", stopReason: "repetition" };
  }
  return null;
}

/**
 * How many of the `generated` tokens there are up to the first one that ends a sequence; null: none
 * of them does.
 */
export function endWithin(
  prompt: Int32Array,
  generated: Int32Array,
  rules: StopRules,
  contextTokensMax: number,
): number | null {
  const context = { promptLength: prompt.length, contextTokensMax };
  const tokens = new TokenList(prompt);
  for (const [place, token] of generated.entries()) {
    tokens.push(token);
    if (endAfterNewest(tokens, rules, context) !== null) return place + 1;
  }
  return null;
}

/** Most tokens that can be sampled behind a prompt. */
export function generatedTokensMax(rules: StopRules, context: StopContext): number {
  const room = context.contextTokensMax - context.promptLength;
  return Math.min(rules.maxTokens ?? room, room);
}

function repeats(tokens: TokenList, generated: number, rule: RepetitionRule): boolean {
  for (let size = rule.patternTokensMin; size <= rule.patternTokensMax; size++) {
    const span = size * rule.count;
    if (span > generated) return false;
    if (isPeriodic(tokens.view(tokens.length - span), size)) return true;
  }
  return false;
}

function isPeriodic(tokens: Int32Array, period: number): boolean {
  for (let index = period; index < tokens.length; index++) {
    if (tokens[index] !== tokens[index - period]) return false;
  }
  return true;
}
