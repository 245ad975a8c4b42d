import type { LlmOptions } from "#engine";
import type { RemoteOptions } from "./remote-options.ts";

/** What is put before texts. */
export interface EmbedderPrompts {
  /** Before queries. */
  readonly query?: string;
  /** Before documents. */
  readonly document?: string;
}

/** How an embedder is opened. Options that its kind does not have are without effect. */
export interface EmbedderOptions {
  /** Instead of the model's own prompts. `{}`: none, whatever the model's files or name say. */
  readonly prompts?: EmbedderPrompts | undefined;
  /** The first so many elements of each vector, made length 1 again. Default: all. */
  readonly dimensions?: number | undefined;
  /** Of a local model: device, number format, threads. */
  readonly engine?: LlmOptions | undefined;
  /** Of an address: the model there, its key, and how it is asked. */
  readonly remote?: RemoteOptions | undefined;
}
