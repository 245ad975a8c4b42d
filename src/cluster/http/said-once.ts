/** Reasons that are remembered: a stranger may make up many. */
const REASONS_MAX = 16;
/** All reasons of a connection that is not made, lost, or silent, as `failureText` words them. */
const AWAY = "away";
const AWAY_CODE = /\((ECONN[A-Z]+|EPIPE|E(HOST|NET)UNREACH|EAI_AGAIN|ENOTFOUND|UND_ERR_\w+)\)$/;
const LATE = /^no answer within /;

/** Whether nothing answers at the address, by the words of the failure. */
export function isUnanswered(reason: string): boolean {
  return AWAY_CODE.test(reason) || LATE.test(reason);
}

/**
 * Which reasons of one trouble were told. While a worker starts, refused and reset connections take
 * turns: that nothing answers is one reason.
 */
export class SaidOnce {
  readonly #said = new Set<string>();

  /** Whether the reason is to be told: it was not since the last `end`. */
  isNew(reason: string): boolean {
    const key = isUnanswered(reason) ? AWAY : reason;
    if (this.#said.has(key) || this.#said.size >= REASONS_MAX) return false;
    this.#said.add(key);
    return true;
  }

  /** The trouble is over. Returns what was told of it. */
  end(): readonly string[] {
    const said = [...this.#said];
    this.#said.clear();
    return said;
  }
}
