import { HttpError } from "./http-errors.ts";

/** Deeper than any real request, and far below where recursion would exhaust the stack. */
export const BODY_LEVELS_MAX = 64;

/** Lists of numbers up to this level are prompts as token ids, which may be millions. */
const TOKEN_ID_LEVEL_MAX = 2;

/**
 * Rejects bodies that are nested so deeply that traversal could fail, that have so many values that
 * a schema reporting each invalid one would fill the memory, or that name an object's prototype.
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

/** Texts up to this length, in UTF-16 units, are parsed in a few milliseconds in any case. */
const SHORT_TEXT = 65_536;

const BACKSLASH = 0x5c;

/** Limits of a body. */
interface BodyLimits {
  readonly valuesMax: number;
  /**
   * Maximum number of UTF-16 units outside of strings: parsing lists of millions of numbers would
   * delay other requests too long.
   */
  readonly bareMax: number;
}

/**
 * Rejects, before parsing, texts that `checkBodyShape` would reject: 8 MiB of empty lists take the
 * parser 0.8 s. Does not check whether the text is JSON.
 */
export function checkTextShape(text: string, { valuesMax, bareMax }: BodyLimits): void {
  if (text.length <= SHORT_TEXT) return;
  // A value has at most one opener or string of its own, and one more string: its key.
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

/** Index of the quote that ends the string starting at `start`; the text's length if none does. */
function endOfText(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
  }
  return text.length;
}

/** Appends the objects and arrays in a value to `found`; returns how many values it holds. */
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

/** Rejects names of prototypes: copying such an object by field would change all objects. */
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
