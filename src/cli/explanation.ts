/** The router's explanation of a choice as a table. */
import { plainText } from "./terminal-text.ts";

/** What `POST /route/explain` answers, as far as it is shown. */
interface ExplanationAnswer {
  readonly policy: string;
  readonly prompt_tokens: number;
  readonly tokens_from: string;
  readonly chosen: string | null;
  readonly reason: string | null;
  readonly unrouted: string | null;
  readonly workers: readonly {
    readonly id: string;
    readonly left_out: string | null;
    readonly cached_tokens: readonly number[];
    readonly cost_ms: number | null;
    readonly terms_ms: Readonly<Record<string, number>> | null;
    readonly load: { readonly requests: number } | null;
  }[];
}

/** `answer`: of a router of this version. */
export function explanationText(answer: ExplanationAnswer): string {
  const { policy, chosen, reason, unrouted, workers } = answer;
  const head =
    chosen === null
      ? `no worker takes it: ${unrouted}`
      : `${chosen} gets it (policy ${policy}: ${reason})`;
  const terms = [...new Set(workers.flatMap(({ terms_ms: own }) => Object.keys(own ?? {})))];
  const rows = workers.map((worker) => [
    worker.id === chosen ? `${worker.id} *` : worker.id,
    worker.left_out ?? String(worker.load?.requests ?? 0),
    worker.cached_tokens.join("/"),
    number(worker.cost_ms),
    ...terms.map((term) => number(worker.terms_ms?.[term] ?? null)),
  ]);
  const columns = ["worker", "requests", "cached tokens", "cost ms", ...terms];
  const prompt = `${answer.prompt_tokens} tokens (from: ${answer.tokens_from})`;
  return `${plainText(head)}\nprompt: ${prompt}\n\n${aligned([columns, ...rows])}`;
}

function number(value: number | null): string {
  return value === null ? "-" : value.toFixed(2);
}

/** Columns as wide as their widest cell, the first one on the left. */
function aligned(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) =>
    Math.max(...rows.map((row) => (row[at] ?? "").length)),
  );
  const line = (row: readonly string[]) =>
    row.map((cell, at) =>
      at === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[at] ?? 0),
    );
  return rows.map((row) => `${line(row).join("  ").trimEnd()}\n`).join("");
}
