/** Other engines that give keys and values of prompts. */

/** Where keys and values of a prompt come from. */
export interface KvSourceOptions {
  /** The other engine's `ModelInfo.kvAddress`. */
  readonly host: string;
  readonly port: number;
  /** It computes what it does not have; off: only what it has stored is fetched. Default: false. */
  readonly compute?: boolean;
  /**
   * What has not come by then is computed here; an engine that stops answering is not waited for.
   * Default: 600,000.
   */
  readonly deadlineMs?: number;
  /**
   * A third engine that has more of the prompt than the one that computes it: that one fetches it
   * from there first. Default: none.
   */
  readonly prefix?: { readonly host: string; readonly port: number };
}

/** Another engine that gives blocks of a prompt. */
export interface KvSource {
  readonly peer: { readonly host: string; readonly port: number };
  /** It computes what it does not have; off: only what it has stored is fetched. */
  readonly compute: boolean;
  /** What has not come by then is computed here. */
  readonly deadlineMs: number;
  /** Where the other engine fetches what that one has stored; null: it does not. */
  readonly prefix: { readonly host: string; readonly port: number } | null;
}
