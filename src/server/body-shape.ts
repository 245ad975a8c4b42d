import { HttpError } from "./http-errors.ts";

/** Deeper than any real request, and far below where recursion would exhaust the stack. */
export const BODY_LEVELS_MAX = 64;

/** Lists of numbers up to here are prompts as token ids, of which there may be millions. */
const TOKEN_ID_LEVEL_MAX = 2;

/**
 * Refuses bodies that are nested so deeply that walking them could fail, or have so many values
 * that a schema which reports each wrong one would fill the memory, or name an object's prototype.
 */
export function checkBodyShape(body: unknown, valuesMax: number): void {
  let level: unknown[] = [body];
  let values = 0;
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > BODY_LEVELS_MAX) {
      throw tooDeep();
    }
    const next: unknown[] = [];
    for (const container of level) {
      values += gatherChildren(container, depth, next);
      if (values > valuesMax) throw tooMany(valuesMax);
    }
    level = next;
  }
}

/** Texts up to here, in UTF-16 units, are parsed in a few milliseconds whatever is in them. */
const SHORT_TEXT = 65_536;

const BACKSLASH = 0x5c;

/** What a body may have. */
interface BodyLimits {
  readonly valuesMax: number;
  /**
   * Most UTF-16 units outside of texts: lists of millions of numbers take longer to parse than
   * others should wait.
   */
  readonly bareMax: number;
}

/**
 * Refuses what `checkBodyShape` will refuse anyway, before it is parsed: 8 MiB of empty lists take
 * the parser 0.8 s. Says nothing of whether the text is JSON.
 */
export function checkTextShape(text: string, { valuesMax, bareMax }: BodyLimits): void {
  if (text.length <= SHORT_TEXT) return;
  // A value is at most an opener or a text of its own and another one, its key.
  const most = 2 * valuesMax + 1;
  let depth = 0;
  let seen = 0;
  let bare = text.length;
  const sign = /["[\]{}]/g;
  for (let found = sign.exec(text); found !== null; found = sign.exec(text)) {
    const [kind] = found;
    if (kind === "]" || kind === "}") {
      depth--;
      continue;
    }
    if (kind === '"') {
      const end = endOfText(text, found.index);
      bare -= end - found.index;
      sign.lastIndex = end + 1;
    } else if (++depth > BODY_LEVELS_MAX + 1) throw tooDeep();
    if (++seen > most) throw tooMany(valuesMax);
  }
  if (bare > bareMax) throw tooBare(bareMax);
}

/** The place of the quote that ends the text which begins at `start`; the end where none does. */
function endOfText(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
  }
  return text.length;
}

/** Appends objects and arrays inside of a value to `found`; how many values it holds. */
function gatherChildren(value: unknown, depth: number, found: unknown[]): number {
  if (typeof value !== "object" || value === null) return 0;
  const isList = Array.isArray(value);
  if (!isList) checkNames(value);
  const inner: unknown[] = isList ? value : Object.values(value);
  let numbers = 0;
  // By index: a list may have millions of token ids.
  for (let place = 0; place < inner.length; place++) {
    const item = inner[place];
    if (typeof item === "number") numbers++;
    else if (typeof item === "object" && item !== null) found.push(item);
  }
  return isList && depth <= TOKEN_ID_LEVEL_MAX ? inner.length - numbers : inner.length;
}

/** Whoever copies such an object field by field would change what all objects have. */
function checkNames(value: object): void {
  if (Object.hasOwn(value, "__proto__")) throw prototypeNamed("__proto__");
  if (!Object.hasOwn(value, "constructor")) return;
  const { constructor: named } = value;
  if (Object.hasOwn(Object(named), "prototype")) throw prototypeNamed("constructor");
}

function prototypeNamed(name: string): HttpError {
  return new HttpError(400, "invalid_json_body", `Cannot read request: no field may be ${name}`);
}

function tooDeep(): HttpError {
  return refusal("nested_too_deeply", `at most ${BODY_LEVELS_MAX} levels of JSON are accepted`);
}

function tooMany(valuesMax: number): HttpError {
  const wanted = `at most ${valuesMax} values are accepted, lists of token ids apart`;
  return refusal("too_many_values", wanted);
}

function tooBare(bareMax: number): HttpError {
  const wanted = `at most ${bareMax} characters of JSON are accepted outside of texts`;
  return refusal("too_many_values", wanted);
}

function refusal(code: string, wanted: string): HttpError {
  return new HttpError(400, code, `Cannot read request: ${wanted}`);
}
