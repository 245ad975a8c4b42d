/** The flags of a script that is run by hand; --help, and what it cannot read, are answered. */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

const wrongUse = 2;

/** Ends the process: it was called in a way that it does not know. */
export function refuse(message) {
  console.error(`${message}; --help says which flags there are`);
  process.exit(wrongUse);
}

/** The comment that a script begins with, as text. */
function leadingComment(file) {
  const text = readFileSync(file, "utf8");
  const [comment] = /^(?:\/\*[\s\S]*?\*\/|(?:\/\/.*\n)+)/.exec(text) ?? [""];
  return comment
    .replace(/^\/\*\*?\s*|\s*\*\/$/g, "")
    .replace(/^ ?(?:\*|\/\/) ?/gm, "")
    .trim();
}

/** A number of `min` or more; `min` is 0 unless the flag's own says otherwise. */
function numberOf(name, text, { min = 0 }) {
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value) && value >= min) return value;
  return refuse(`Cannot use --${name}: wanted a number of at least ${min}, got "${text}"`);
}

/** What a flag's text means. */
function meaningOf(name, text, option) {
  if (option.type === "number") return numberOf(name, text, option);
  return text.split(",").map((part) => numberOf(name, part, option));
}

const isNumeric = ({ type }) => type === "number" || type === "numbers";

/**
 * `parseArgs` with two more types: `number`, and `numbers`, a list with commas; both may have a
 * `min`, and defaults that are numbers. --help prints how the script that runs describes itself; a
 * flag that it does not have, a missing value or one that is no number ends the process with one
 * line and code 2.
 */
export function readFlags({ options, ...config }) {
  const numeric = Object.entries(options).filter(([, option]) => isNumeric(option));
  const asText = Object.fromEntries(numeric.map(([name]) => [name, { type: "string" }]));
  const help = { type: "boolean", short: "h" };
  const parsed = tryToParse({ ...config, options: { ...options, ...asText, help } });
  if (parsed.values.help === true) {
    console.log(leadingComment(process.argv[1]));
    process.exit(0);
  }
  for (const [name, option] of numeric) {
    const text = parsed.values[name];
    parsed.values[name] = text === undefined ? option.default : meaningOf(name, text, option);
  }
  return parsed;
}

function tryToParse(config) {
  try {
    return parseArgs(config);
  } catch (error) {
    if (!error?.code?.startsWith("ERR_PARSE_ARGS")) throw error;
    return refuse(error.message);
  }
}
