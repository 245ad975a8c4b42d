/** Questions to other engines: how much of the prompts that they compute was cached there. */
import { decodeCount, encodeCountAsk } from "./block-ask.ts";
import { nameOf, type PeerAddress, type PeerPort } from "./peer-port.ts";

/**
 * Questions to one engine about prompts that it has not begun, at a time: each takes a connection
 * until then. The count of any more is asked for when the first block has come.
 */
const EARLY_MAX = 3;

/** One question. */
export interface CountAsk {
  readonly peer: PeerAddress;
  /** Of the prompt's blocks. */
  readonly offer: string;
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
}

export class CountAsks {
  readonly #port: Pick<PeerPort, "ask">;
  /** Of questions that were asked early and wait, by engine. */
  readonly #early = new Map<string, number>();

  constructor(port: Pick<PeerPort, "ask">) {
    this.#port = port;
  }

  /** Tokens, once the prompt has run. An engine that says nothing of it: 0. */
  async ask({ peer, offer, signal, deadlineMs }: CountAsk): Promise<number> {
    const message = encodeCountAsk(offer);
    try {
      return decodeCount(await this.#port.ask({ peer, message, signal, deadlineMs })) ?? 0;
    } catch {
      return 0;
    }
  }

  /** Takes room for a question before the engine has begun the prompt. Null: there is none. */
  takeEarly(peer: PeerAddress): (() => void) | null {
    const name = nameOf(peer);
    const waiting = this.#early.get(name) ?? 0;
    if (waiting >= EARLY_MAX) return null;
    this.#early.set(name, waiting + 1);
    return () => {
      const left = (this.#early.get(name) ?? 1) - 1;
      if (left === 0) this.#early.delete(name);
      else this.#early.set(name, left);
    };
  }
}
