/** The flags of a script that is run by hand; --help, and what it cannot read, are answered. */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { unbuiltFile } from "./build-age.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Results that are not published: git ignores the folder. */
const unpublished = fileURLToPath(new URL("../bench/.cache/results", import.meta.url));

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
 * The file that results go to: the flag's, with --publish the one that documents quote, else one of
 * the same name in bench/.cache/results, so that a run for oneself changes nothing published. The
 * end of the process says where they are.
 */
function resultFile(given, { published }, publish) {
  const file = given ?? (publish === true ? published : join(unpublished, basename(published)));
  mkdirSync(dirname(resolve(file)), { recursive: true });
  process.on("exit", (code) => {
    const isThere = code === 0 && existsSync(file);
    const hint = file === published || given !== undefined ? "" : "; --publish keeps them";
    if (isThere) console.error(`results are in ${file}${hint}`);
  });
  if (resolve(published).startsWith(root)) warnOfOldBuild();
  showThatItRuns();
  return file;
}

/** Results of a policy that was changed and not built would be those of the policy before. */
function warnOfOldBuild() {
  const file = unbuiltFile(join(root, "src"), join(root, "dist"));
  if (file === null) return;
  console.error(`src/${file} is newer than its build, which is measured; npm run build updates it`);
}

const HEARTBEAT_MS = 10_000;

/** On a terminal a line that says how long it takes already. */
function showThatItRuns() {
  if (!process.stderr.isTTY) return;
  const tell = () => process.stderr.write(`\rrunning for ${process.uptime().toFixed(0)} s `);
  setInterval(tell, HEARTBEAT_MS).unref();
}

/**
 * `parseArgs` with two more types: `number`, and `numbers`, a list with commas; both may have a
 * `min`, and defaults that are numbers. A text flag with `published`, a file of results, has what
 * `resultFile` says, and the script --publish. --help prints how the script that runs describes
 * itself; a flag that it does not have, a missing value or one that is no number ends the process
 * with one line and code 2.
 */
export function readFlags({ options, ...config }) {
  const numeric = Object.entries(options).filter(([, option]) => isNumeric(option));
  const asText = Object.fromEntries(numeric.map(([name]) => [name, { type: "string" }]));
  const results = Object.entries(options).filter(([, { published }]) => published !== undefined);
  const isPublishing = results.length > 0 ? { publish: { type: "boolean" } } : {};
  const more = { ...isPublishing, help: { type: "boolean", short: "h" } };
  const parsed = tryToParse({ ...config, options: { ...options, ...asText, ...more } });
  if (parsed.values.help === true) {
    console.log(leadingComment(process.argv[1]));
    process.exit(0);
  }
  for (const [name, option] of numeric) {
    const text = parsed.values[name];
    parsed.values[name] = text === undefined ? option.default : meaningOf(name, text, option);
  }
  for (const [name, option] of results) {
    parsed.values[name] = resultFile(parsed.values[name], option, parsed.values.publish);
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
