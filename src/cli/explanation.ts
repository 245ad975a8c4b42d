/** The router's explanation of a choice as tables: the policy's terms, and the conductor's. */
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
  /** Null or absent: nothing plans at that router. */
  readonly conductor?: ConductorAnswer | null;
}

/** What would be decided among pools, or by deadlines. */
interface ConductorAnswer {
  readonly decision: {
    readonly decision: "accepted" | "rejected";
    /** Who computes the prompt, and who makes the tokens. */
    readonly prefill: string | null;
    readonly decode: string | null;
    readonly predicted_ttft_ms: number;
    readonly predicted_tbt_ms: number;
    /** Null: there is no such deadline, or it is not looked at. */
    readonly prefill_load: number | null;
    readonly decode_load: number | null;
    readonly transfer?: {
      readonly from: string | null;
      readonly start_tokens: number;
      readonly end_tokens: number;
    } | null;
    readonly reason?: string;
    readonly retry_after_ms?: number;
  };
  /** Absent: of a router before this version. */
  readonly deadlines_ms?: { readonly ttft: number | null; readonly tbt: number | null };
  readonly prefill: readonly {
    readonly id: string | null;
    readonly queue_ms: number;
    readonly transfer_ms: number;
    readonly prefill_ms: number;
    readonly ttft_ms: number;
    readonly own_prefix_tokens: number;
    readonly used_prefix_tokens: number;
  }[];
  readonly decode: readonly {
    readonly id: string | null;
    readonly requests: number;
    readonly tbt_ms: number;
    readonly has_room: boolean;
  }[];
}

/** `answer`: of a router of this version. */
export function explanationText(answer: ExplanationAnswer): string {
  const { policy, chosen, reason, unrouted, workers } = answer;
  const { conductor = null } = answer;
  const decides = conductor !== null && policy === "kv" && hasPools(conductor);
  const head =
    chosen === null
      ? `no worker takes it: ${unrouted}`
      : decides
        ? `among pools the conductor decides, below; by cost alone: ${chosen} (${reason})`
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
  const first = `${plainText(head)}\nprompt: ${prompt}\n\n${aligned([columns, ...rows])}`;
  if (conductor === null || !decidesMore(conductor)) return first;
  return `${first}\n${conductorText(conductor)}`;
}

/** Whether it says more than the policy: there are deadlines, or pools. */
function decidesMore(conductor: ConductorAnswer): boolean {
  const { ttft = null, tbt = null } = conductor.deadlines_ms ?? {};
  const rejects = conductor.decision.decision === "rejected";
  return rejects || ttft !== null || tbt !== null || hasPools(conductor);
}

/** Whether some workers compute prompts alone, or make tokens alone. */
function hasPools({ prefill, decode }: ConductorAnswer): boolean {
  const both = prefill.filter(({ id }) => decode.some((terms) => terms.id === id));
  return both.length < Math.max(prefill.length, decode.length);
}

function conductorText({ decision, prefill, decode, deadlines_ms }: ConductorAnswer): string {
  const ids = new Set([...prefill, ...decode].flatMap(({ id }) => (id === null ? [] : [id])));
  const rows = [...ids].map((id) => {
    const computing = prefill.find((terms) => terms.id === id);
    const decoding = decode.find((terms) => terms.id === id);
    const parts = [decision.prefill === id ? "prompt" : "", decision.decode === id ? "tokens" : ""];
    const prefix = `${computing?.own_prefix_tokens}/${computing?.used_prefix_tokens}`;
    return [
      ...[id, parts.filter((part) => part !== "").join("+")],
      ...[computing === undefined ? "-" : prefix, number(computing?.queue_ms)],
      ...[number(computing?.transfer_ms), number(computing?.prefill_ms)],
      ...[number(computing?.ttft_ms), decoding === undefined ? "-" : String(decoding.requests)],
      ...[number(decoding?.tbt_ms), decoding?.has_room === false ? "full" : ""],
    ];
  });
  const columns = ["worker", "gets", "prefix tokens", "queue ms", "transfer ms", "prefill ms"];
  const table = aligned([[...columns, "ttft ms", "requests", "tbt ms", ""], ...rows]);
  return `${plainText(decisionText(decision, deadlines_ms))}\n\n${table}`;
}

function decisionText(
  decision: ConductorAnswer["decision"],
  deadlines: ConductorAnswer["deadlines_ms"],
): string {
  const { prefill, decode, transfer = null, reason, retry_after_ms: retryMs } = decision;
  const times = `predicted ${timesOf(decision, deadlines)}`;
  if (decision.decision === "rejected") {
    return `the conductor rejects it (${reason}): ${times}, try again in ${retryMs} ms`;
  }
  const moved =
    transfer === null
      ? ""
      : `, tokens ${transfer.start_tokens} to ${transfer.end_tokens} come from ${transfer.from}`;
  const who =
    prefill === decode
      ? `${decode} computes and decodes it`
      : `${prefill} computes the prompt, ${decode} decodes`;
  return `conductor: ${who}${moved}; ${times}`;
}

function timesOf(
  decision: ConductorAnswer["decision"],
  { ttft, tbt }: NonNullable<ConductorAnswer["deadlines_ms"]> = { ttft: null, tbt: null },
): string {
  const first = `${number(decision.predicted_ttft_ms)} ms to the first token`;
  const next = `${number(decision.predicted_tbt_ms)} ms between tokens`;
  const [firstDeadline, nextDeadline] = [
    deadlineText(ttft, decision.prefill_load),
    deadlineText(tbt, decision.decode_load),
  ];
  return `${first}${firstDeadline}, ${next}${nextDeadline}`;
}

/** `load`: null where speeds are not known yet, or nothing is rejected. */
function deadlineText(deadlineMs: number | null, load: number | null): string {
  if (deadlineMs === null) return "";
  return ` (load ${load === null ? "not known" : load.toFixed(2)}, deadline ${deadlineMs} ms)`;
}

function number(value: number | null | undefined): string {
  return value == null ? "-" : value.toFixed(2);
}

/** Columns as wide as their widest cell, the first one on the left. */
function aligned(cells: readonly (readonly string[])[]): string {
  const rows = cells.map((row) => row.map(plainText));
  const widths = (rows[0] ?? []).map((_, at) =>
    Math.max(...rows.map((row) => (row[at] ?? "").length)),
  );
  const line = (row: readonly string[]) =>
    row.map((cell, at) =>
      at === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[at] ?? 0),
    );
  return rows.map((row) => `${line(row).join("  ").trimEnd()}\n`).join("");
}
