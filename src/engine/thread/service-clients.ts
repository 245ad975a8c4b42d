import type { MessagePort } from "node:worker_threads";
import {
  clientOf,
  FIRST_CLIENT,
  type FromEngine,
  type LoopStats,
  packOutputs,
  type RequestKey,
  type StepOutput,
  type ToEngine,
  type WireError,
} from "#engine/protocol";

/** Events of clients on threads of their own. */
export interface ClientEvents {
  readonly onMessage: (message: ToEngine) => void;
  /** The client's thread ended, or it closed its port. */
  readonly onGone: (client: number) => void;
}

/** One client's part of a step. */
interface Share {
  readonly outputs: StepOutput["outputs"][number][];
  readonly embeddings: StepOutput["embeddings"][number][];
  readonly failures: StepOutput["failures"][number][];
}

/**
 * Routes the engine's messages to clients. The first client, which loaded the model, receives
 * everything that concerns the engine as a whole; the others receive results of their own requests,
 * and the engine's end.
 */
export class ServiceClients {
  readonly #postFirst: (message: FromEngine) => void;
  readonly #events: ClientEvents;
  readonly #ports = new Map<number, MessagePort>();
  /** The error that ended the engine: clients that connect later receive it at once. */
  #death: WireError | null = null;
  #closed = false;

  constructor(postFirst: (message: FromEngine) => void, events: ClientEvents) {
    this.#postFirst = postFirst;
    this.#events = events;
  }

  /** Adds a client. Its requests' keys are its own (`firstKeyOf`). */
  connect(client: number, port: MessagePort): void {
    if (this.#closed) {
      port.close();
      return;
    }
    this.#ports.set(client, port);
    port.on("message", (messages: readonly ToEngine[]) => {
      for (const message of messages) this.#events.onMessage(message);
    });
    port.on("close", () => {
      if (this.#ports.delete(client)) this.#events.onGone(client);
    });
    if (this.#death !== null) this.#postTo(client, { type: "dead", error: this.#death });
  }

  /** Posts to the clients that the message concerns. */
  post(message: FromEngine): void {
    switch (message.type) {
      case "refused":
      case "kvSnapshot":
      case "looked":
      case "forgotten":
      case "filled":
        this.#postTo(clientOf(message.key), message);
        break;
      case "dead":
        this.#death = message.error;
        for (const client of [FIRST_CLIENT, ...this.#ports.keys()]) this.#postTo(client, message);
        break;
      default:
        this.#postFirst(message);
    }
  }

  /** Posts to each client its own results, to the first client the statistics of every step. */
  postStep(step: StepOutput, stats: LoopStats): void {
    const tell = (client: number, share: Omit<StepOutput, "report">) => {
      const { outputs, embeddings, failures } = share;
      const { report } = step;
      const own = { ...packOutputs(outputs), embeddings, failures };
      this.#postTo(client, { type: "step", ...own, report, stats });
    };
    if (this.#ports.size === 0) tell(FIRST_CLIENT, step);
    else for (const [client, share] of sharesOf(step)) tell(client, share);
  }

  /** Posts that the engine is closed, as the last message. */
  close(): void {
    this.#closed = true;
    this.#postFirst({ type: "closed" });
    const ports = [...this.#ports.values()];
    this.#ports.clear();
    for (const port of ports) port.close();
  }

  /** A client that is gone receives nothing. */
  #postTo(client: number, message: FromEngine): void {
    if (client === FIRST_CLIENT) this.#postFirst(message);
    else this.#ports.get(client)?.postMessage(message);
  }
}

/** A step's results by client; the first client has a share even when it is empty. */
function sharesOf({ outputs, embeddings, failures }: StepOutput): ReadonlyMap<number, Share> {
  const shares = new Map([[FIRST_CLIENT, emptyShare()]]);
  const shareOf = (key: RequestKey): Share => {
    const client = clientOf(key);
    const share = shares.get(client) ?? emptyShare();
    shares.set(client, share);
    return share;
  };
  for (const output of outputs) shareOf(output.key).outputs.push(output);
  for (const embedding of embeddings) shareOf(embedding.key).embeddings.push(embedding);
  for (const failure of failures) shareOf(failure.key).failures.push(failure);
  return shares;
}

function emptyShare(): Share {
  return { outputs: [], embeddings: [], failures: [] };
}
