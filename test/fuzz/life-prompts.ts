/** Prompts that meet often: few tokens, few scopes, and starts of what was there before. */
import type { ContentKeys } from "#kvcache";
import type { Dice } from "./dice.ts";
import type { PretendPrompt } from "./pretend-sequence.ts";

const REMEMBERED_MAX = 24;
const TOKENS_MAX = 30;
const SCOPES = ["", "", "", "", "salt", "1\n"];

/** Draws prompts, and tokens that continue them. */
export class LifePrompts {
  readonly #dice: Dice;
  readonly #known: PretendPrompt[] = [];

  constructor(dice: Dice) {
    this.#dice = dice;
  }

  /** One of few, so that histories meet. */
  token(): number {
    return this.#dice.below(this.#dice.below(4) === 0 ? 3 : 1);
  }

  /** The start of a known history, or none, and some tokens behind it. */
  draw(): PretendPrompt {
    const known = this.#dice.below(3) > 0 ? this.#dice.pick(this.#known) : null;
    const head = known?.tokens.slice(0, this.#dice.below(known.tokens.length + 8)) ?? [];
    const more = head.length === 0 ? 1 + this.#dice.below(TOKENS_MAX - 10) : this.#dice.below(5);
    const tail = Array.from({ length: more }, () => this.token());
    const tokens = [...head, ...tail].slice(0, TOKENS_MAX);
    if (known !== null) return { ...known, tokens };
    return { scope: this.#dice.pick(SCOPES) ?? "", keys: this.#drawKeys(), tokens };
  }

  /** All of a history that was there; null while there was none. */
  known(): PretendPrompt | null {
    return this.#dice.pick(this.#known);
  }

  /** A later request may ask for this again. */
  remember(prompt: PretendPrompt): void {
    const place = this.#known.length < REMEMBERED_MAX ? this.#known.length : undefined;
    this.#known[place ?? this.#dice.below(REMEMBERED_MAX)] = prompt;
  }

  /** Mostly none; an image, or ids for tokens. */
  #drawKeys(): ContentKeys | null {
    const kind = this.#dice.below(12);
    if (kind === 0) return { extraIds: [0, 0, 0, 0, 0, 1 + this.#dice.below(2)] };
    if (kind > 1) return null;
    const hash = (this.#dice.below(2) === 0 ? "a" : "b").repeat(64);
    return { items: [{ hash, start: this.#dice.below(6), length: 3 }] };
  }
}
