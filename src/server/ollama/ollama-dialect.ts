/** How Ollama's API writes failures and streams: a JSON object a line. */
import type { Dialect } from "../dialect.ts";
import type { HttpFailure } from "../http-errors.ts";

/** One line of a stream. */
export function jsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

function errorOf({ body }: HttpFailure): { readonly error: string } {
  return { error: body.error.message };
}

export const OLLAMA: Dialect = {
  failure: (failure) => ({ status: failure.status, body: errorOf(failure) }),
  failureItem: (failure) => jsonLine(errorOf(failure)),
  headers: () => ({}),
  // Clients parse every line: there is nothing that they skip.
  stream: { contentType: "application/x-ndjson", keepAlive: "", end: "" },
};
