/**
 * Streams of Perigee workers with markers (docs/design/migration.md): comment lines that tell which
 * tokens the events before them contain. Events are not parsed.
 */

import { heldIn, type PromptUsage } from "./prompt-usage.ts";
import {
  EVENTS_TYPE,
  hasEvents,
  type PlainForm,
  type StreamPiece,
  type StreamReader,
} from "./stream-reader.ts";

/** What a worker found of a prompt in its cache. */
export interface PromptMark {
  readonly index: number;
  readonly tokens: number;
  readonly cachedTokens: number;
}

/** The state of one choice. */
export interface ChoiceProgress {
  /** With commas between them, as workers read and write them. */
  ids: string;
  tokens: number;
  ended: boolean;
}

/** A piece without its marker may be this long: the marker comes in the same write. */
const HELD_BYTES_MAX = 16 * 2 ** 20;

const MARKER = "\n: ";
const ERROR_EVENT = 'data: {"error":';
const CHOICES_MAX = 65_536;
const USAGE_LENGTH_MAX = 2048;
/** The bits of native/relay. */
const PLAIN_CHOICES_MAX = 64;

/**
 * Reads the pieces of one answer, by one or several workers one after the other. The lists of
 * tokens go on; what waits for its marker is dropped by `restart`.
 */
export class MarkerReader implements StreamReader {
  readonly mediaType = EVENTS_TYPE;
  readonly hasEvents = hasEvents;
  /** By choice. */
  readonly choices: ChoiceProgress[];
  readonly prompts: PromptMark[] = [];
  #held = "";
  /** No marker begins before this index of what is held. */
  #scanned = 0;
  #done = false;
  #usage = false;
  #kvByteSeconds: number | null = null;
  #failure: string | null = null;
  #broken: string | null = null;

  constructor(choiceCount: number) {
    this.choices = Array.from({ length: choiceCount }, () => ({
      ids: "",
      tokens: 0,
      ended: false,
    }));
  }

  /** Whether something came that a second worker would have to go on from. */
  get begun(): boolean {
    return this.choices.some(({ tokens, ended }) => ended || tokens > 0);
  }

  /** Every choice has ended: what follows is relayed as it comes. */
  get allEnded(): boolean {
    return this.choices.every(({ ended }) => ended);
  }

  /** The worker's error event, where one came: JSON in Latin-1. */
  get failure(): string | null {
    return this.#failure;
  }

  get broken(): string | null {
    return this.#broken;
  }

  /** The stream's end was relayed. */
  get isComplete(): boolean {
    return this.#done;
  }

  /** A chunk of usage was relayed behind the last token. */
  get hasUsage(): boolean {
    return this.#usage;
  }

  /** What the worker says of the first prompt; null: nothing yet. */
  get usage(): PromptUsage | null {
    const [mark] = this.prompts;
    if (mark === undefined) return null;
    const { tokens: promptTokens, cachedTokens } = mark;
    return { promptTokens, cachedTokens, kvByteSeconds: this.#kvByteSeconds };
  }

  /** Of each prompt's first worker, which computed it alone. */
  get cachedTokens(): number {
    const first = new Map(this.prompts.toReversed().map((mark) => [mark.index, mark]));
    return [...first.values()].reduce((sum, mark) => sum + mark.cachedTokens, 0);
  }

  get plainForm(): PlainForm | null {
    if (this.#held !== "" || this.#failure !== null || this.allEnded) return null;
    const choices = this.choices.length;
    if (choices > PLAIN_CHOICES_MAX) return null;
    let live = 0n;
    for (const [at, { ended }] of this.choices.entries()) if (!ended) live |= 1n << BigInt(at);
    return { choices, live };
  }

  addRelayed(ids: readonly string[]): void {
    for (const [at, text] of ids.entries()) {
      const choice = this.choices[at];
      if (choice !== undefined && text !== "") addIds(choice, text);
    }
  }

  /** The client got nothing: the next worker begins from the start. */
  forget(): void {
    this.restart();
    this.prompts.length = 0;
    for (const choice of this.choices) {
      choice.ids = "";
      choice.tokens = 0;
      choice.ended = false;
    }
  }

  /** Drops what waits: the next piece is another worker's. */
  restart(): void {
    this.#held = "";
    this.#scanned = 0;
    this.#failure = null;
    this.#broken = null;
  }

  read(bytes: Buffer): StreamPiece {
    const text = this.#held + bytes.toString("latin1");
    let out = "";
    let tokens = 0;
    /** The end of what was relayed, and the place from which markers are searched. */
    let start = 0;
    let from = this.#scanned;
    for (;;) {
      const at = markerAt(text, from);
      if (at < 0) {
        from = Math.max(from, text.length - MARKER.length);
        break;
      }
      const end = text.indexOf("\n", at);
      // A blank line follows, which may be in the next piece.
      if (end < 0 || end + 1 === text.length) {
        from = Math.max(0, at - 1);
        break;
      }
      from = end;
      const kind = text[at + 2];
      if (kind !== "t" && kind !== "p") continue;
      const marker = text.slice(at + 4, end);
      const added = kind === "t" ? this.#addTokens(marker) : this.#addPrompt(marker);
      // What came with earlier markers is relayed: their tokens are not asked for again.
      if (added === null) return { text: out, tokens };
      tokens += added;
      out += text.slice(start, at);
      start = text[end + 1] === "\n" ? end + 2 : end + 1;
      from = start - 1;
    }
    this.#held = text.slice(start);
    this.#scanned = Math.max(0, from - start);
    if (this.allEnded) out += this.#takeRest();
    else if (this.#held !== "") this.#inspectHeld();
    return { text: out, tokens };
  }

  /** Behind the last token: whole lines of what is held. */
  #takeRest(): string {
    const end = this.#held.lastIndexOf("\n") + 1;
    const rest = this.#held.slice(0, end);
    this.#held = this.#held.slice(end);
    this.#scanned = 0;
    if (this.#held.length > HELD_BYTES_MAX) this.#breaks("an event without end");
    this.#done ||= rest.includes("data: [DONE]");
    const usage = rest.indexOf('"usage":{');
    if (usage < 0) return rest;
    this.#usage = true;
    this.#kvByteSeconds = heldIn(rest.slice(usage, usage + USAGE_LENGTH_MAX));
    return rest;
  }

  #inspectHeld(): void {
    const held = this.#held;
    if (held.length > HELD_BYTES_MAX) {
      this.#breaks("a stream without markers");
      return;
    }
    const at = held.startsWith(ERROR_EVENT) ? 0 : held.indexOf(`\n${ERROR_EVENT}`) + 1;
    if (at === 0 && !held.startsWith(ERROR_EVENT)) return;
    const end = held.indexOf("\n", at);
    if (end >= 0) this.#failure = held.slice(at + "data: ".length, end);
  }

  /** What waits has no form. */
  #breaks(why: string): null {
    this.#broken = why;
    this.#held = "";
    this.#scanned = 0;
    return null;
  }

  /** `0 995,317`, `0 -`, `0 2 end`. The number of tokens; null: it is none of these. */
  #addTokens(text: string): number | null {
    const [index = "", ids = "-", end] = text.split(" ");
    const choice = this.choices[Number(index)];
    if (choice === undefined || choice.ended) return this.#breaks("a marker of an unknown choice");
    if (ids !== "-" && !IDS.test(ids)) return this.#breaks("a marker without token ids");
    if (end === "end") choice.ended = true;
    return ids === "-" ? 0 : addIds(choice, ids);
  }

  /** 0: it has no tokens; null: it is of no prompt. */
  #addPrompt(text: string): number | null {
    const [index = -1, tokens = -1, cachedTokens = -1] = text.split(" ").map(Number);
    const isValid = [index, tokens, cachedTokens].every((n) => Number.isInteger(n) && n >= 0);
    if (!isValid || this.prompts.length >= CHOICES_MAX)
      return this.#breaks("a marker of no prompt");
    this.prompts.push({ index, tokens, cachedTokens });
    return 0;
  }
}

const IDS = /^\d{1,9}(?:,\d{1,9})*$/;

function addIds(choice: ChoiceProgress, ids: string): number {
  const count = commasIn(ids) + 1;
  choice.ids = choice.ids === "" ? ids : `${choice.ids},${ids}`;
  choice.tokens += count;
  return count;
}

function commasIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf(","); at >= 0; at = text.indexOf(",", at + 1)) count++;
  return count;
}

/** Index of the next comment line's colon; -1: none. */
function markerAt(text: string, from: number): number {
  if (from === 0 && text.startsWith(": ")) return 0;
  const at = text.indexOf(MARKER, from);
  return at < 0 ? -1 : at + 1;
}
