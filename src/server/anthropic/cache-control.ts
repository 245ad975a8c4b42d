/**
 * `cache_control` as retention: the tokens up to a mark are kept with a priority above the default
 * for as long as the mark asks. Where a mark stands in the prompt is found by rendering the
 * conversation up to it.
 */
import type { RetentionConfig } from "#engine";
import { conversationOf } from "./conversation.ts";
import type { CacheControl, ContentBlock, PromptRequest } from "./messages-request.ts";

const MINUTE_MS = 60_000;
/** Blocks without retention have 35, `PRIORITY_DEFAULT` of the cache. */
const DEFAULT_PRIORITY = 35;

/** How marked tokens are kept: the longer, the later they are evicted. */
export const LIFETIMES = {
  "1h": { priority: 80, durationMs: 60 * MINUTE_MS },
  "5m": { priority: 60, durationMs: 5 * MINUTE_MS },
} as const;
export type Ttl = keyof typeof LIFETIMES;

/** Tokens from the start that marks of a lifetime cover, those of a longer one included. */
export type MarkedTokens = Readonly<Record<Ttl, number>>;

export const NOTHING_MARKED: MarkedTokens = { "1h": 0, "5m": 0 };

/** The conversation up to its last mark of a lifetime. */
interface Mark {
  readonly ttl: Ttl;
  /** Made where it is wanted: a body may have thousands of marks. */
  readonly beginning: () => PromptRequest;
  /** Nothing follows but what the server adds. */
  readonly isLast: boolean;
}

/** The request's marks: the last one of each lifetime, since a mark covers all that precede it. */
export function marksOf(
  request: PromptRequest & { readonly cache_control?: CacheControl },
): Mark[] {
  const marks = new Map<Ttl, Mark>();
  const found = (mark: CacheControl, beginning: () => PromptRequest, isLast = false) => {
    if (mark == null) return;
    const ttl = mark.ttl ?? "5m";
    marks.set(ttl, { ttl, beginning, isLast });
  };
  const { system, messages, tools } = request;
  const probe = { messages: [{ role: "user" as const, content: [PROBE] }] };
  tools?.forEach((tool, place) => {
    found(tool.cache_control, () => ({ ...request, ...probe, tools: tools.slice(0, place + 1) }));
  });
  system?.forEach((block, place) => {
    found(block.cache_control, () => ({
      ...request,
      ...probe,
      system: system.slice(0, place + 1),
    }));
  });
  messages.forEach(({ role, content }, at) => {
    content.forEach((block, place) => {
      const beginning = () => ({
        ...request,
        messages: [...messages.slice(0, at), { role, content: content.slice(0, place + 1) }],
      });
      const isLast = at === messages.length - 1 && place === content.length - 1;
      found(markOf(block), beginning, isLast);
    });
  });
  found(request.cache_control, () => request, true);
  return [...marks.values()];
}

/** Stands for the first message: the prompt before it is what a mark of the system covers. */
const PROBE: ContentBlock = { type: "text", text: "." };

function markOf(block: ContentBlock): CacheControl {
  const isThought = block.type === "thinking" || block.type === "redacted_thinking";
  return isThought ? null : block.cache_control;
}

/** What finds marks in a prompt. */
export interface MarkFinding {
  readonly promptTokenIds: readonly number[];
  /** The tokens of another conversation, without an opened turn. */
  readonly tokensOf: (
    conversation: ReturnType<typeof conversationOf>,
  ) => Promise<readonly number[]>;
  /** Something was put behind the conversation: its end is looked for, too. */
  readonly endIsMoved: boolean;
}

/** Tokens that the marks cover. */
export async function markedTokens(
  marks: readonly Mark[],
  { promptTokenIds, tokensOf, endIsMoved }: MarkFinding,
): Promise<MarkedTokens> {
  const marked = { ...NOTHING_MARKED };
  for (const { ttl, beginning, isLast } of marks) {
    if (isLast && !endIsMoved) {
      marked[ttl] = promptTokenIds.length;
      continue;
    }
    const conversation = conversationOf(beginning());
    const { continue_final_message: _open, ...closed } = conversation;
    const tokens = await tokensOf({ ...closed, add_generation_prompt: false });
    marked[ttl] = sharedLength(promptTokenIds, tokens);
  }
  return { "1h": marked["1h"], "5m": Math.max(marked["1h"], marked["5m"]) };
}

function sharedLength(one: readonly number[], other: readonly number[]): number {
  const end = Math.min(one.length, other.length);
  let length = 0;
  while (length < end && one[length] === other[length]) length++;
  return length;
}

/** The request's retention; null: nothing is marked. */
export function retentionOf(marked: MarkedTokens): RetentionConfig | null {
  const ranges = [
    { start: 0, end: marked["1h"], ...LIFETIMES["1h"] },
    { start: marked["1h"], end: marked["5m"], ...LIFETIMES["5m"] },
  ].filter(({ start, end }) => end > start);
  if (ranges.length === 0) return null;
  return { ranges, decodePriority: DEFAULT_PRIORITY, decodeDurationMs: null };
}
