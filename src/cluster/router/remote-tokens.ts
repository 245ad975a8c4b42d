/** Prompts that a worker of another engine tokenizes for the router, so that its cache is found. */
import { createHash } from "node:crypto";
import { isPlainObject } from "#base";
import { askWorker } from "./ask-worker.ts";
import type { GenerationRequest } from "./generation-request.ts";
import type { WorkerLink } from "./worker-link.ts";

const TIMEOUT_MS = 2000;
/** Ids that are remembered, of all prompts together. */
const TOKENS_MAX = 4 * 2 ** 20;

/** Fields of a chat that its prompt depends on. */
const CHAT_FIELDS = [
  ...["messages", "tools", "chat_template", "chat_template_kwargs", "documents"],
  ...["add_generation_prompt", "continue_final_message", "add_special_tokens"],
] as const;

export class RemoteTokens {
  /** By the prompt's hash; the least recently used first. */
  readonly #known = new Map<string, Uint32Array>();
  #tokens = 0;
  /** Prompts that were asked for, and found here. */
  readonly counts = { asked: 0, remembered: 0, failed: 0 };

  /** Null: the worker does not say. */
  async tokensOf(request: GenerationRequest, link: WorkerLink): Promise<Uint32Array | null> {
    const body = questionOf(request);
    if (body === null) return null;
    const key = createHash("sha256").update(body).digest("base64");
    const found = this.#known.get(key);
    if (found !== undefined) {
      this.counts.remembered++;
      this.#known.delete(key);
      this.#known.set(key, found);
      return found;
    }
    this.counts.asked++;
    const tokens = await ask(link, body).catch(() => null);
    if (tokens === null) this.counts.failed++;
    else this.#remember(key, tokens);
    return tokens;
  }

  #remember(key: string, tokens: Uint32Array): void {
    if (tokens.length > TOKENS_MAX / 4 || this.#known.has(key)) return;
    this.#known.set(key, tokens);
    this.#tokens += tokens.length;
    for (const [oldest, { length }] of this.#known) {
      if (this.#tokens <= TOKENS_MAX) break;
      this.#known.delete(oldest);
      this.#tokens -= length;
    }
  }
}

async function ask(link: WorkerLink, body: string): Promise<Uint32Array | null> {
  const { status, text } = await askWorker(link, {
    ...{ method: "POST", path: "/tokenize", body, timeoutMs: TIMEOUT_MS },
  });
  if (status !== 200) return null;
  const value: unknown = JSON.parse(text);
  const ids = isPlainObject(value) ? value.tokens : null;
  return isIds(ids) ? Uint32Array.from(ids) : null;
}

/** The body of `POST /tokenize`; null: the request has no single prompt of text. */
function questionOf({ kind, body }: GenerationRequest): string | null {
  const { model } = body;
  if (kind === "completions" && typeof body.prompt === "string") {
    return JSON.stringify({ model, prompt: body.prompt });
  }
  if (kind !== "chat") return null;
  const fields = CHAT_FIELDS.filter((name) => body[name] !== undefined);
  return JSON.stringify({ model, ...Object.fromEntries(fields.map((name) => [name, body[name]])) });
}

function isIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0);
}
