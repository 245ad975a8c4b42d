import { assert, EngineError } from "#base";
import type { GrammarMatcher } from "./grammar-matcher.ts";

/** A matcher, or how to create it before the first token: waiting sequences cost nothing. */
export type MatcherSource = GrammarMatcher | (() => Promise<GrammarMatcher>);

/**
 * How far one sequence is in its grammar. Sampled tokens are passed on with `prepare`, since that
 * may take as long as a mask. Between two of them it can go ahead, behind drafted tokens: what it
 * meets there, errors included, changes nothing for the sampled ones.
 */
export class SequenceGrammar {
  readonly #create: (() => Promise<GrammarMatcher>) | null;
  /** Null before the first mask, where it is made then. */
  #matcher: GrammarMatcher | null;
  /** [ceil(V / 32)] each; null before the first use. */
  #mask: Uint32Array | null = null;
  #aheadMask: Uint32Array | null = null;
  readonly #words: number;
  /** Sampled tokens that were not passed on yet. */
  readonly #untold: number[] = [];
  /** How many of these another engine, or a client, says that it sampled. */
  #fromElsewhere = 0;
  /** The mask is that of the next token. */
  #prepared = false;
  #terminated = false;
  #disposed = false;
  /** Drafted tokens that the matcher has now. */
  #ahead = 0;
  /** The library failed ahead of the sequence: it does not go there again. */
  #failedAhead = false;

  /** `vocabularySize`: columns of the logits. */
  constructor(matcher: MatcherSource, vocabularySize: number) {
    this.#create = typeof matcher === "function" ? matcher : null;
    this.#matcher = typeof matcher === "function" ? null : matcher;
    this.#words = Math.ceil(vocabularySize / 32);
  }

  /** The output is complete, and its end token was sampled. */
  get terminated(): boolean {
    return this.#terminated;
  }

  /** `prepare` is likely to take long. */
  get slow(): boolean {
    return this.#matcher?.slow ?? false;
  }

  /** Whether it can go ahead: not before the first mask, and only where masks are quick. */
  get foresees(): boolean {
    const isQuick = this.#matcher?.quick === true && this.#mask !== null;
    return isQuick && !this.#failedAhead && !this.#terminated;
  }

  /** What may come next behind the sampled tokens; null before the first `prepare`. */
  get mask(): Uint32Array | null {
    return this.#mask;
  }

  /** Takes a sampled token; before the first `prepare`, one that was sampled elsewhere. */
  accept(token: number): void {
    if (this.#terminated) return;
    this.#prepared = false;
    if (this.#mask === null) this.#fromElsewhere++;
    this.#untold.push(token);
    this.#terminated = this.#matcher?.ends(token) === true;
  }

  /**
   * Passes the sampled tokens on, and computes the mask of the next one unless that was done.
   * Throws ENGINE_STEP_FAILED where the grammar refuses a sampled token, INVALID_ARGUMENT where it
   * refuses one from elsewhere, and errors of its library.
   */
  async prepare(): Promise<void> {
    if (this.#prepared) return;
    const matcher = this.#matcher ?? (await this.#create?.());
    assert(matcher !== undefined, "Cannot prepare a mask without a matcher");
    this.#matcher = matcher;
    this.#mask ??= new Uint32Array(this.#words);
    if (this.#disposed) {
      this.dispose();
      return;
    }
    this.#tell(matcher);
    await matcher.fillBitmask(this.#mask);
    this.#prepared = true;
  }

  /**
   * Goes behind one more drafted token. False, without a change, where the grammar refuses it; an
   * end token is not gone behind, since nothing follows it. Throws errors of the library.
   */
  goBehind(token: number): boolean {
    return this.#tried((matcher) => {
      if (matcher.ends(token) || !matcher.accept(token)) return false;
      this.#ahead++;
      return true;
    });
  }

  /** What may come next behind the drafted tokens; valid until the next call. Throws as above. */
  lookAhead(): Uint32Array {
    const mask = this.#aheadMask ?? new Uint32Array(this.#words);
    this.#aheadMask = mask;
    this.#tried((matcher) => matcher.fillAhead(mask));
    return mask;
  }

  /** Tokens that spell what alone may follow, `most` at most. Throws errors of the library. */
  forced(most: number): Int32Array {
    return this.#tried((matcher) => matcher.forced(most));
  }

  /** Takes the newest drafted tokens back. */
  comeBack(count: number): void {
    // After a failure all were taken back.
    const taken = Math.min(count, this.#ahead);
    this.#ahead -= taken;
    if (taken > 0) this.#matcher?.rollback(taken);
  }

  /** Releases the matcher. */
  dispose(): void {
    this.#disposed = true;
    this.#matcher?.dispose();
  }

  #tried<Result>(work: (matcher: GrammarMatcher) => Result): Result {
    const matcher = this.#matcher;
    if (matcher === null || !this.foresees) throw unforeseen();
    this.#tell(matcher);
    try {
      return work(matcher);
    } catch (error) {
      this.#failedAhead = true;
      this.comeBack(this.#ahead);
      throw error;
    }
  }

  #tell(matcher: GrammarMatcher): void {
    for (let token = this.#untold[0]; token !== undefined; token = this.#untold[0]) {
      if (!matcher.accept(token)) throw refused(token, this.#fromElsewhere > 0);
      // Only now: who fails to pass it on shall fail again at the next mask.
      this.#untold.shift();
      if (this.#fromElsewhere > 0) this.#fromElsewhere--;
    }
  }
}

function refused(token: number, isFromElsewhere: boolean): EngineError {
  if (isFromElsewhere) {
    return new EngineError(
      "INVALID_ARGUMENT",
      "Cannot continue: the grammar must allow the tokens that were generated before, it refuses " +
        `token ${token}; send the request again without them`,
      { param: "generated" },
    );
  }
  return new EngineError(
    "ENGINE_STEP_FAILED",
    `Cannot continue: the grammar must allow the sampled token, it refuses token ${token}`,
  );
}

function unforeseen(): EngineError {
  return new EngineError(
    "ENGINE_STEP_FAILED",
    "Cannot go behind drafted tokens: the grammar must be quick, and must not have failed there",
  );
}
