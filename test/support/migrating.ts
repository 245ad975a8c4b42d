/** A router's part of a migration (docs/design/migration.md), as plainly as it can be written. */

/** What a stream brought up to one of its markers. */
export interface Delivery {
  readonly choice: number;
  readonly ids: string;
  readonly ended: boolean;
  /** Prompt tokens found in the cache, of the prompts that have begun. */
  readonly cachedTokens: number;
  /** Its events, without markers. */
  readonly events: string;
}

/** A streamed answer with markers, taken apart. */
export interface MarkedStream {
  readonly deliveries: readonly Delivery[];
  /** Events behind the last marker. */
  readonly rest: string;
  /** Of its `: p` lines. */
  readonly promptTokens: number;
}

export type Body = Readonly<Record<string, unknown>>;

const requestId = "moved-request";

/** Sends a body as a router does, and takes the answer apart. Throws for an answer that is no stream. */
export async function streamed(url: string, path: string, body: Body): Promise<MarkedStream> {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-request-id": requestId },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return takenApart(text);
}

export function takenApart(text: string): MarkedStream {
  const deliveries: Delivery[] = [];
  let events = "";
  let [cachedTokens, promptTokens] = [0, 0];
  for (const block of text.split(/(?<=\n\n)/)) {
    const marker = /^: t (\d+) (\S+)( end)?\n\n$/.exec(block);
    const prompt = /^: p \d+ (\d+) (\d+)\n\n$/.exec(block);
    if (marker !== null) {
      const [, choice, ids = "-", end] = marker;
      const written = ids === "-" ? "" : ids;
      const ended = end !== undefined;
      deliveries.push({ choice: Number(choice), ids: written, ended, cachedTokens, events });
      events = "";
    } else if (prompt !== null) {
      promptTokens += Number(prompt[1]);
      cachedTokens += Number(prompt[2]);
    } else if (!block.startsWith(":")) events += block;
  }
  return { deliveries, rest: events, promptTokens };
}

/** The body that goes on behind the first `taken` deliveries of a stream. */
export function continued(body: Body, first: MarkedStream, taken: number, choices: number): Body {
  const list = Array.from({ length: choices }, (_, choice) => {
    const own = first.deliveries.slice(0, taken).filter((delivery) => delivery.choice === choice);
    const ids = own.map((delivery) => delivery.ids).filter((text) => text !== "");
    return { token_ids: ids.join(","), ended: own.some(({ ended }) => ended) };
  });
  const { perigee } = body as { readonly perigee?: Body };
  const moved = {
    ...perigee,
    continue: list,
    cached_tokens: first.deliveries[taken - 1]?.cachedTokens,
  };
  return { ...body, perigee: moved };
}

/** What the client has of a stream of which it got some deliveries, or all and the rest. */
export function relayed({ deliveries, rest }: MarkedStream, taken?: number): string {
  const events = deliveries.slice(0, taken).map((delivery) => delivery.events);
  return events.join("") + (taken === undefined ? rest : "");
}

/** Text without the ids of calls, which are random. */
export function withoutIds(text: string): string {
  return text.replaceAll(/call_[0-9a-f]{24}/g, "call");
}

/** By choice, its chunks; the others under -1. Without ids of calls. */
export function byChoice(text: string): ReadonlyMap<number, readonly string[]> {
  const chunks = new Map<number, string[]>();
  for (const block of text.split("\n\n")) {
    if (block === "") continue;
    const index = Number(/"choices":\[\{"index":(\d+)/.exec(block)?.[1] ?? -1);
    const list = chunks.get(index) ?? [];
    chunks.set(index, list);
    list.push(withoutIds(block));
  }
  return chunks;
}
