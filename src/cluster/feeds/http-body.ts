import { EngineError, messageOf } from "#base";

/** The text of an answer; throws NETWORK where it has more than `bytesMax`. */
export async function bodyText(response: Response, bytesMax: number): Promise<string> {
  if (response.body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const piece of response.body as AsyncIterable<Uint8Array>) {
    bytes += piece.length;
    if (bytes > bytesMax) {
      throw new EngineError("NETWORK", `an answer has more than ${bytesMax} bytes`);
    }
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}

/** What fetch failed for: its own message is "fetch failed". */
export function causeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return messageOf(cause ?? error);
}
