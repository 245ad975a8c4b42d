/** The flags of a script that is run by hand; --help, and what it does not know, are answered. */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

const wrongUse = 2;

/** The comment that a script begins with, as text. */
function leadingComment(file) {
  const text = readFileSync(file, "utf8");
  const [comment] = /^(?:\/\*[\s\S]*?\*\/|(?:\/\/.*\n)+)/.exec(text) ?? [""];
  return comment
    .replace(/^\/\*\*?\s*|\s*\*\/$/g, "")
    .replace(/^ ?(?:\*|\/\/) ?/gm, "")
    .trim();
}

/**
 * `parseArgs`, in which --help prints how the script that runs describes itself; a flag that it
 * does not have, or a missing value, ends the process with one line and code 2.
 */
export function readFlags(config) {
  const options = { ...config.options, help: { type: "boolean", short: "h" } };
  const parsed = tryToParse({ ...config, options });
  if (parsed.values.help !== true) return parsed;
  console.log(leadingComment(process.argv[1]));
  process.exit(0);
}

function tryToParse(config) {
  try {
    return parseArgs(config);
  } catch (error) {
    if (!error?.code?.startsWith("ERR_PARSE_ARGS")) throw error;
    console.error(`${error.message}; --help says which flags there are`);
    process.exit(wrongUse);
  }
}
