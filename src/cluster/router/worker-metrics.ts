/** Metrics of all workers as one text: each series with its worker, or summed over all. */
import type { FastifyInstance } from "fastify";
import { askWorker } from "./ask-worker.ts";
import type { RouterContext } from "./context.ts";

const TIMEOUT_MS = 2000;

export function workerMetricsRoute(app: FastifyInstance, context: RouterContext): void {
  app.get<{ Querystring: { sum?: string } }>("/metrics/workers", async (request, reply) => {
    const texts = await Promise.all([...context.links.all].map((link) => metricsOf(link)));
    reply.header("content-type", context.registry.contentType);
    return joinedMetrics(texts, request.query.sum !== undefined);
  });
}

type Link = Parameters<typeof askWorker>[0];

async function metricsOf(link: Link): Promise<readonly [string, string]> {
  const question = { method: "GET", path: "/metrics", body: null, timeoutMs: TIMEOUT_MS } as const;
  try {
    const { status, text } = await askWorker(link, question);
    return [link.info.id, status === 200 ? text : ""];
  } catch {
    return [link.info.id, ""]; // membership and breaker say that it is away
  }
}

/** One metric of the exposition format. */
interface Family {
  readonly comments: string[];
  /** Series and value, in order. */
  readonly samples: [string, string][];
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(\{.*\})?\s+([-+]?(?:\d[\d.eE+-]*|Inf)|NaN)(?:\s|$)/;
/** Lines of one worker that are read. */
const LINES_MAX = 100_000;

/** `sum`: series of equal labels are added up; else each has the label `worker`. */
export function joinedMetrics(
  texts: readonly (readonly [worker: string, text: string])[],
  sum: boolean,
): string {
  const families = new Map<string, Family>();
  for (const [worker, text] of texts) addWorker(families, text, sum ? null : worker);
  const lines: string[] = [];
  for (const { comments, samples } of families.values()) {
    lines.push(...comments);
    const shown = sum ? [...summed(samples)] : samples;
    for (const [series, value] of shown) lines.push(`${series} ${value}`);
  }
  return `${lines.join("\n")}\n`;
}

function addWorker(families: Map<string, Family>, text: string, worker: string | null): void {
  for (const line of text.split("\n", LINES_MAX)) {
    const comment = /^# (?:HELP|TYPE) (\S+)/.exec(line);
    const name = comment?.[1] ?? SAMPLE.exec(line)?.[1];
    if (name === undefined) continue;
    const family = familyOf(families, name);
    if (comment !== null) {
      if (!family.comments.includes(line) && family.comments.length < 2) family.comments.push(line);
    } else addSample(family, line, worker);
  }
}

/** `_bucket`, `_sum` and `_count` belong to their histogram. */
function familyOf(families: Map<string, Family>, name: string): Family {
  const base = name.replace(/_(?:bucket|sum|count)$/, "");
  const known = families.get(name) ?? families.get(base);
  if (known !== undefined) return known;
  const family: Family = { comments: [], samples: [] };
  families.set(name, family);
  return family;
}

function addSample({ samples }: Family, line: string, worker: string | null): void {
  const [, name = "", labels = "", value = ""] = SAMPLE.exec(line) ?? [];
  if (worker === null) {
    samples.push([name + labels, value]);
    return;
  }
  const own = `worker="${worker.replace(/[\\"\n]/g, "_")}"`;
  const inner = labels.slice(1, -1);
  samples.push([`${name}{${inner === "" ? own : `${inner},${own}`}}`, value]);
}

function summed(samples: readonly (readonly [string, string])[]): Map<string, string> {
  const sums = new Map<string, number>();
  for (const [series, value] of samples) {
    sums.set(series, (sums.get(series) ?? 0) + Number(value));
  }
  return new Map([...sums].map(([series, value]) => [series, String(value)]));
}
