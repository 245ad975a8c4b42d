/** How an embedder behind an address is used. */
export interface RemoteOptions {
  /** The model's name there. */
  readonly model: string;
  /** Sent as a bearer token. Default: the value of `apiKeyVariable`. */
  readonly apiKey?: string;
  /** Name of an environment variable with the key. Default: PERIGEE_EMBEDDER_API_KEY. */
  readonly apiKeyVariable?: string;
  /** Most tokens of a text, which longer ones are cut off at. Default: 512. */
  readonly tokensMax?: number;
  /**
   * The folder or hub id of a model with the same tokenizer. Default: none; a token is taken for
   * three bytes of UTF-8, which is more tokens than most texts have.
   */
  readonly tokenizer?: string;
  /** Most texts of one request. Default: 32. */
  readonly batchTexts?: number;
  /** Most bytes of the texts of one request, a longer text apart. Default: 256 KiB. */
  readonly batchBytes?: number;
  /** Requests under way at once. Default: 4. */
  readonly requestsAtOnce?: number;
  /** Time of a request with all its attempts, in ms. Default: 60,000. */
  readonly deadlineMs?: number;
  /** Attempts of a request that a busy or broken server refused. Default: 5. */
  readonly attemptsMax?: number;
  /** Wait before the second attempt, in ms, doubled for each further one. Default: 500. */
  readonly retryMs?: number;
}

/** The same with defaults, except what may be absent. */
export type RemoteSettings = Required<Omit<RemoteOptions, "apiKey" | "tokenizer">> & {
  readonly apiKey: string | null;
};

export const KEY_VARIABLE = "PERIGEE_EMBEDDER_API_KEY";
