import { count, duration, percent } from "../numbers.ts";
import type { Ended } from "./now-state.ts";

/** The last requests that ended: how much of each prompt the cache had. */
export function RequestList({ ended }: { ended: readonly Ended[] }) {
  return (
    <section class="card" aria-label="Requests that ended">
      <h2>Requests that ended</h2>
      {ended.length === 0 ? (
        <p class="quiet">None since this page was opened.</p>
      ) : (
        <ol class="requests">
          {ended.slice(0, 10).map(({ ms, row }, place) => (
            <RequestRow key={`${ms}-${place}`} row={row} />
          ))}
        </ol>
      )}
    </section>
  );
}

function RequestRow({ row }: Pick<Ended, "row">) {
  const [prompt = 0, cached = 0, generated = 0, queue = 0, prefill = 0, decode = 0] = row;
  const speed = decode > 0 ? (generated - 1) / decode : 0;
  return (
    <li>
      <span class="bar" aria-hidden="true">
        <span
          class="bar-cached"
          style={{ width: `${prompt > 0 ? (100 * cached) / prompt : 0}%` }}
        />
      </span>
      <span>
        <b>{percent(cached, prompt)}</b> of {count(prompt)} prompt tokens cached
      </span>
      <span class="quiet">
        first token {duration(queue + prefill)} · {count(generated)} tokens
        {speed > 0 ? ` at ${count(speed)}/s` : ""}
      </span>
    </li>
  );
}
