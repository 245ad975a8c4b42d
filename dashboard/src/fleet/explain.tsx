import { useState } from "preact/hooks";
import { accessHeaders, reasonOf } from "../feed.ts";
import { count } from "../numbers.ts";

interface Explained {
  readonly policy: string;
  readonly prompt_tokens: number;
  readonly chosen: string | null;
  readonly reason: string | null;
  readonly unrouted: string | null;
  readonly workers: readonly {
    readonly id: string;
    readonly left_out: string | null;
    readonly cached_tokens: readonly number[];
    readonly cost_ms: number | null;
    readonly terms_ms: Readonly<Record<string, number>> | null;
  }[];
}

/** Who would get a prompt, and why. */
export function Explain() {
  const [prompt, setPrompt] = useState("");
  const [found, setFound] = useState<Explained | string | null>(null);
  const ask = async () => {
    const answer = await fetch("route/explain", {
      method: "POST",
      headers: { ...accessHeaders(), "content-type": "application/json" },
      body: JSON.stringify({ prompt }),
    });
    setFound(answer.ok ? ((await answer.json()) as Explained) : await reasonOf(answer));
  };
  return (
    <section class="card wide" aria-label="Who would get a prompt">
      <h2>Who would get a prompt</h2>
      <form
        class="inline"
        onSubmit={(event) => {
          event.preventDefault();
          ask().catch((error: unknown) => setFound(String(error)));
        }}
      >
        <textarea
          rows={2}
          aria-label="Prompt"
          value={prompt}
          onInput={(event) => setPrompt(event.currentTarget.value)}
        />
        <button type="submit" class="main" disabled={prompt === ""}>
          Explain
        </button>
      </form>
      {typeof found === "string" && <p class="notice">{found}</p>}
      {found !== null && typeof found !== "string" && <Result found={found} />}
    </section>
  );
}

function Result({ found }: { found: Explained }) {
  return (
    <div aria-live="polite">
      <p>
        <b>{found.chosen ?? "no worker"}</b>{" "}
        <span class="quiet">
          {found.reason ?? found.unrouted ?? ""} · policy {found.policy} ·{" "}
          {count(found.prompt_tokens)} tokens
        </span>
      </p>
      <section class="scroll" tabIndex={0} aria-label="Table of workers">
        <table>
          <thead>
            <tr>
              <th scope="col">worker</th>
              <th scope="col">cached tokens</th>
              <th scope="col">cost</th>
              <th scope="col">terms</th>
            </tr>
          </thead>
          <tbody>
            {found.workers.map((worker) => (
              <tr key={worker.id} class={worker.id === found.chosen ? "chosen" : ""}>
                <th scope="row">{worker.id}</th>
                <td>{worker.left_out ?? count(Math.max(0, ...worker.cached_tokens))}</td>
                <td>{worker.cost_ms === null ? "–" : `${worker.cost_ms.toFixed(1)} ms`}</td>
                <td class="quiet">{termsText(worker.terms_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </div>
  );
}

function termsText(terms: Readonly<Record<string, number>> | null): string {
  if (terms === null) return "";
  return Object.entries(terms)
    .filter(([, ms]) => typeof ms === "number" && ms !== 0)
    .map(([name, ms]) => `${name} ${ms.toFixed(1)}`)
    .join(" · ");
}
