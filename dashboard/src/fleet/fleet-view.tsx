import type { FleetMessage, FleetWorker, Hello } from "../messages.ts";
import { Tile } from "../now/now-view.tsx";
import { count } from "../numbers.ts";
import { Decisions } from "./decisions.tsx";
import { Explain } from "./explain.tsx";

interface FleetProps {
  readonly fleet: FleetMessage | null;
  readonly decisions: readonly string[];
  readonly hello: Hello | null;
}

/** A router's workers, what each has to do and holds, and why requests go where they go. */
export function FleetView({ fleet, decisions, hello }: FleetProps) {
  if (hello?.kind === "server") {
    return <p class="notice">This is one server. A router (perigee route) shows its fleet here.</p>;
  }
  if (fleet === null) return <p class="quiet pad">Waiting for the router …</p>;
  const requests = fleet.workers.reduce((sum, worker) => sum + worker.requests, 0);
  return (
    <>
      <ul class="tiles" aria-label="Fleet">
        <Tile
          name="workers"
          value={count(fleet.workers.length + fleet.workersMore)}
          more={fleet.policy}
        />
        <Tile
          name="requests"
          value={count(fleet.requestsInWork)}
          more={`${count(fleet.waiting)} wait in the router`}
        />
        <Tile
          name="at workers"
          value={count(requests)}
          more={fleet.draining ? "draining" : "taking requests"}
        />
        <Tile name="first token by" value={deadline(fleet.ttftDeadlineMs)} more="deadline" />
        <Tile name="between tokens" value={deadline(fleet.tbtDeadlineMs)} more="deadline" />
      </ul>
      <div class="cards">
        <section class="card wide" aria-label="Workers">
          <h2>Workers</h2>
          <ul class="workers">
            {fleet.workers.map((worker) => (
              <Worker key={worker.id} worker={worker} most={mostRequests(fleet.workers)} />
            ))}
          </ul>
          {fleet.workersMore > 0 && <p class="quiet">and {count(fleet.workersMore)} more</p>}
        </section>
        <Explain />
        <Decisions lines={decisions} />
      </div>
    </>
  );
}

function deadline(ms: number | null): string {
  return ms === null ? "–" : `${count(ms)} ms`;
}

function mostRequests(workers: readonly FleetWorker[]): number {
  return Math.max(1, ...workers.map(({ requests }) => requests));
}

const LEVELS = ["device", "host", "disk"] as const;

/** How large a worker's cache is. */
function cacheText({ blocks }: FleetWorker): string {
  const levels = LEVELS.flatMap((level, at) =>
    (blocks[at] ?? 0) > 0 ? [`${level} ${count(blocks[at] ?? 0)}`] : [],
  );
  return `announces its blocks (${levels.join(", ")})`;
}

function Worker({ worker, most }: { worker: FleetWorker; most: number }) {
  const [device = 0] = worker.blocks;
  const isWell = worker.state === "ready" && worker.breaker !== "open";
  return (
    <li class={`worker${isWell ? "" : " unwell"}`}>
      <p>
        <b>{worker.id}</b> <span class="chip">{worker.role}</span>{" "}
        <span class="quiet">
          {worker.kind} · {worker.state}
          {worker.breaker !== null && worker.breaker !== "closed" ? ` · ${worker.breaker}` : ""}
        </span>
      </p>
      <Meter
        label={`${count(worker.requests)} requests`}
        share={worker.requests / most}
        name="decode"
      />
      {device > 0 && (
        <Meter
          label={`${count(worker.heldBlocks)} of ${count(device)} blocks held`}
          share={worker.heldBlocks / device}
          name="held-device"
        />
      )}
      <p class="quiet">
        {count(worker.decoding)} decode · {count(worker.uncachedTokens)} tokens to compute ·{" "}
        {worker.announces ? cacheText(worker) : "announces no blocks"}
      </p>
    </li>
  );
}

function Meter({ label, share, name }: { label: string; share: number; name: string }) {
  return (
    <div class="meter">
      <span class="bar" aria-hidden="true">
        <span class={`fill key-${name}`} style={{ width: `${Math.min(100, share * 100)}%` }} />
      </span>
      <span>{label}</span>
    </div>
  );
}
