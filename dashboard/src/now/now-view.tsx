import type { Quantiles } from "../messages.ts";
import { count, duration, percent, rate } from "../numbers.ts";
import { Chart, type Line } from "./chart.tsx";
import { COLUMN, type NowState } from "./now-state.ts";
import { RequestList } from "./request-list.tsx";
import { StepTimeline } from "./step-timeline.tsx";

const TOKENS: readonly Line[] = [
  { column: COLUMN.generated, label: "generated", color: "decode", filled: true },
  { column: COLUMN.computed, label: "prompt, computed", color: "prefill" },
  { column: COLUMN.cached, label: "prompt, cached", color: "cached" },
];
const REQUESTS: readonly Line[] = [
  { column: COLUMN.running, label: "running", color: "decode", filled: true },
  { column: COLUMN.waiting, label: "waiting", color: "warn" },
];
const LATENCIES: readonly Line[] = [
  { column: COLUMN.ttft50, label: "first token p50", color: "prefill" },
  { column: COLUMN.ttft99, label: "p99", color: "prefill", dashed: true },
  { column: COLUMN.gap50, label: "between tokens p50", color: "decode" },
  { column: COLUMN.gap99, label: "p99", color: "decode", dashed: true },
];
const STEP_TIMES: readonly Line[] = [
  { column: COLUMN.device, label: "step", color: "device" },
  { column: COLUMN.host, label: "planning on the host", color: "host-time" },
];

/** What runs now. */
export function NowView({ state, version }: { state: NowState; version: number }) {
  const { series } = state;
  const common = { series, version, timeColumn: COLUMN.seconds };
  const { generated, computed, cached } = state.rates;
  return (
    <>
      <Tiles state={state} />
      <div class="cards">
        <StepTimeline steps={state.steps} version={version} />
        <Chart
          {...common}
          title="Tokens a second"
          lines={TOKENS}
          says={`${rate(generated)} generated, ${rate(computed)} computed of prompts, ${rate(cached)} cached`}
        />
        <Chart
          {...common}
          title="Latency, last 10 s"
          unit="ms"
          lines={LATENCIES}
          logarithmic
          says={`First token ${says(state.last?.firstToken)}, between tokens ${says(state.last?.gap)}`}
        />
        <Chart
          {...common}
          title="Requests"
          lines={REQUESTS}
          says={`${count(state.last?.running ?? 0)} running, ${count(state.last?.waiting ?? 0)} waiting`}
        />
        <Chart
          {...common}
          title="Time of a step"
          unit="ms"
          lines={STEP_TIMES}
          says="Time of a step"
        />
        <RequestList ended={state.ended} />
      </div>
    </>
  );
}

function says(quantiles: Quantiles | undefined): string {
  return `p50 ${duration(quantiles?.p50 ?? null)}, p99 ${duration(quantiles?.p99 ?? null)}`;
}

function Tiles({ state }: { state: NowState }) {
  const { last, rates } = state;
  const totals = last?.totals;
  const prompts = rates.cached + rates.computed;
  return (
    <ul class="tiles" aria-label="Now">
      <Tile
        name="running"
        value={count(last?.running ?? 0)}
        more={`${count(last?.waiting ?? 0)} waiting`}
      />
      <Tile
        name="tokens a second"
        value={rate(rates.generated)}
        more={`${rate(rates.steps)} steps a second`}
      />
      <Tile
        name="first token"
        value={duration(last?.firstToken.p50 ?? null)}
        more={`p99 ${duration(last?.firstToken.p99 ?? null)}`}
      />
      <Tile
        name="between tokens"
        value={duration(last?.gap.p50 ?? null)}
        more={`p99 ${duration(last?.gap.p99 ?? null)}`}
      />
      <Tile
        name="prompts from the cache"
        value={
          prompts > 0
            ? percent(rates.cached, prompts)
            : percent(totals?.cachedPromptTokens ?? 0, totals?.promptTokens ?? 0)
        }
        more={prompts > 0 ? "last second" : "since the start"}
      />
      {(totals?.draftedTokens ?? 0) > 0 && (
        <Tile
          name="drafts accepted"
          value={percent(totals?.acceptedTokens ?? 0, totals?.draftedTokens ?? 0)}
          more={`${rate(rates.accepted)} tokens a second`}
        />
      )}
    </ul>
  );
}

/** One number with its name. */
export function Tile({ name, value, more }: { name: string; value: string; more?: string }) {
  return (
    <li class="tile">
      <span class="quiet">{name}</span>
      <b>{value}</b>
      <span class="quiet">{more ?? ""}</span>
    </li>
  );
}
