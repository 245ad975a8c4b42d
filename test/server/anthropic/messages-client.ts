import Anthropic from "@anthropic-ai/sdk";

/** Anthropic's own client for a server; it tries nothing again. */
export function messagesClient({
  server: { url },
}: {
  readonly server: { url: string };
}): Anthropic {
  return new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
}
