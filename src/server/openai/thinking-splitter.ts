/** What a model's text is of: its reasoning, or what follows it. */
export interface SplitText {
  readonly reasoning: string;
  readonly rest: string;
}

const MARKS = [
  { open: "<think>", close: "</think>" },
  { open: "[THINK]", close: "[/THINK]" },
  { open: "<seed:think>", close: "</seed:think>" },
] as const;

type State = "before" | "thinking" | "after" | "over";
type Marks = (typeof MARKS)[number];

/** White space up to this length may stand before the first mark. */
const LEADING_MAX = 256;

/**
 * Splits one sequence's text into a model's reasoning, between `<think>` and `</think>` (or the
 * marks of other families) at its beginning, and all other text. Marks, and white space beside
 * them, are layout. Text without a mark at its beginning passes as it is.
 */
export class ThinkingSplitter {
  #marks: Marks | null = null;
  #state: State = "before";
  /** Whether reasoning has been returned: white space before it is layout. */
  #begun = false;
  #held = "";

  /** `promptEnd`: the end of the prompt's text, which may open the reasoning itself. */
  constructor(promptEnd = "") {
    const end = promptEnd.trimEnd();
    this.#marks = MARKS.find(({ open }) => end.endsWith(open)) ?? null;
    if (this.#marks !== null) this.#state = "thinking";
  }

  /** Whether the text so far ends within reasoning. */
  get isThinking(): boolean {
    return this.#is("thinking");
  }

  push(text: string): SplitText {
    if (this.#is("over")) return { reasoning: "", rest: text };
    this.#held += text;
    if (this.#is("before")) this.#open();
    const reasoning = this.#is("thinking") ? this.#think() : "";
    if (this.#is("after")) this.#skip();
    return { reasoning, rest: this.#is("over") ? this.#take() : "" };
  }

  /** What is still held at the end of the text. */
  finish(): SplitText {
    const wasThinking = this.#is("thinking");
    const text = wasThinking || this.#is("before") ? this.#take() : "";
    this.#state = "over";
    return wasThinking ? { reasoning: this.#begun ? text : text.trimStart(), rest: "" } : at(text);
  }

  #is(state: State): boolean {
    return this.#state === state;
  }

  #open(): void {
    const beginning = this.#held.trimStart();
    this.#marks = MARKS.find(({ open }) => beginning.startsWith(open)) ?? null;
    if (this.#marks !== null) {
      this.#state = "thinking";
      this.#held = beginning.slice(this.#marks.open.length);
      return;
    }
    const mayOpen = MARKS.some(({ open }) => open.startsWith(beginning));
    if (!mayOpen || this.#held.length > LEADING_MAX) this.#state = "over";
  }

  #think(): string {
    const { close } = this.#marks ?? MARKS[0];
    if (!this.#begun) this.#held = this.#held.trimStart();
    const end = this.#held.indexOf(close);
    if (end >= 0) {
      const reasoning = this.#held.slice(0, end).trimEnd();
      this.#held = this.#held.slice(end + close.length);
      this.#state = "after";
      return reasoning;
    }
    const kept = this.#held.length - heldBack(this.#held, close);
    const reasoning = this.#held.slice(0, kept);
    this.#held = this.#held.slice(kept);
    this.#begun ||= reasoning !== "";
    return reasoning;
  }

  #skip(): void {
    this.#held = this.#held.trimStart();
    if (this.#held !== "") this.#state = "over";
  }

  #take(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }
}

function at(rest: string): SplitText {
  return { reasoning: "", rest };
}

/** Length of the end of `text` that may be the mark's beginning, with the white space before it. */
function heldBack(text: string, mark: string): number {
  let length = Math.min(mark.length - 1, text.length);
  while (length > 0 && !mark.startsWith(text.slice(text.length - length))) length -= 1;
  return text.length - text.slice(0, text.length - length).trimEnd().length;
}
