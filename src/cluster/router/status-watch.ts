/** Says what an operator must know of a router that seems to work. */
import type { RouterContext } from "./context.ts";

/** Fewer prompts than this say nothing. */
const PROMPTS_MIN = 20;

/** Looks at the counts now and then. Returns what ends it. */
export function watchStatus(context: RouterContext, warn: (message: string) => void): () => void {
  let before = countsOf(context);
  const timer = setInterval(() => {
    const now = countsOf(context);
    for (const problem of problemsOf(before, now)) warn(problem);
    before = now;
    const leaked = context.dispatcher.books.expire();
    if (leaked > 0) {
      warn(`${leaked} requests were booked long after their end: please report this bug`);
    }
  }, context.config.statusIntervalMs);
  timer.unref();
  return () => clearInterval(timer);
}

/** What is compared. */
export interface StatusCounts {
  readonly asked: number;
  readonly answered: number;
  readonly text: number;
  readonly ceilingTokens: number;
  readonly announcing: number;
  readonly changes: number;
  /** By worker: prompts that it was sent, while it had announced nothing. */
  readonly unannounced: ReadonlyMap<string, number>;
}

function countsOf({ hits, ceiling, caches }: RouterContext): StatusCounts {
  const reports = caches.reports();
  return {
    asked: hits.counts.asked,
    answered: hits.counts.answered,
    text: hits.counts.origins.text,
    ceilingTokens: ceiling.stats().ceilingTokens,
    announcing: reports.filter(({ announces }) => announces).length,
    changes: reports.reduce((sum, { changes }) => sum + changes, 0),
    unannounced: new Map(reports.map(({ workerId, unannounced }) => [workerId, unannounced])),
  };
}

/** Lines about the time between two looks. */
export function problemsOf(before: StatusCounts, now: StatusCounts): string[] {
  const asked = now.asked - before.asked;
  const problems: string[] = [];
  const isSilent = now.answered === before.answered && now.ceilingTokens > before.ceilingTokens;
  if (asked >= PROMPTS_MIN && isSilent) {
    problems.push(
      `the index has known nothing of ${asked} prompts, though they share beginnings: routing is ` +
        `by load alone; ${now.announcing} workers announce their caches, and have announced ` +
        `${now.changes} changes`,
    );
  }
  const texts = now.text - before.text;
  if (texts >= PROMPTS_MIN && now.announcing > 0) {
    problems.push(
      `${texts} prompts were looked up by their text, since no tokenizer is known: what workers ` +
        "announce is not used; give --model",
    );
  }
  for (const [id, count] of now.unannounced) {
    const prompts = count - (before.unannounced.get(id) ?? 0);
    if (prompts < PROMPTS_MIN) continue;
    problems.push(
      `worker ${id} has announced none of the blocks of ${prompts} prompts: what it has is ` +
        "guessed from what it was sent; turn its KV events on (docs/fleet.md)",
    );
  }
  return problems;
}
