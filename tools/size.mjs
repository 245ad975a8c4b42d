// node tools/size.mjs [--json]: how large our files and functions are, how much of them is comment,
// and how often the type checker is told to look away. Tests, fixtures and generated files are out.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { nativeFunctions } from "./tidy/native-functions.mjs";

const MODIFIERS = "(?:export )?(?:static )?(?:async )?";
const HEADS = [
  "function\\b", // function name(…) {
  "(?:get |set )?[*#]?\\w+(?:<[^>]*>)?\\(", // method(…) {
  "const \\w+ = (?:async )?\\(", // const name = (…) => {
];
const FUNCTION_START = new RegExp(`^(\\s*)${MODIFIERS}(?:${HEADS.join("|")}).*\\{$`);
const NOT_FUNCTIONS = /^\s*(?:if|for|while|switch|catch|return|else|do)\b/;

function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

/** Lines of each function of a file. */
function functionLengths(path, text) {
  return path.startsWith("native/")
    ? nativeFunctions(text).map(({ lines }) => lines)
    : scriptFunctionLengths(text.split("\n"));
}

/** Of TypeScript: files are formatted, so a body ends at the brace of its own indent. */
function scriptFunctionLengths(lines) {
  const lengths = [];
  lines.forEach((line, start) => {
    if (NOT_FUNCTIONS.test(line)) return;
    const opened = FUNCTION_START.exec(line) ?? multiLineStart(lines, start);
    if (opened === null) return;
    const end = lines.findIndex(
      (other, index) => index > start && new RegExp(`^${opened[1]}\\}`).test(other),
    );
    if (end > start) lengths.push(end - start + 1);
  });
  return lengths;
}

/** A signature over several lines ends with `): Type {` at the indent of its first line. */
function multiLineStart(lines, start) {
  const line = lines[start];
  const opened = /^(\s*)(?:export )?(?:async )?(?:static )?(?:function\b.*|[#\w]+)\($/.exec(line);
  if (opened === null) return null;
  const close = lines.findIndex(
    (other, index) => index > start && other.startsWith(`${opened[1]})`),
  );
  return close > 0 && lines[close].endsWith("{") ? opened : null;
}

function commentLines(text) {
  const blocks = text.match(/\/\*[\s\S]*?\*\//g) ?? [];
  const inBlocks = blocks.reduce((sum, block) => sum + block.split("\n").length, 0);
  return inBlocks + (text.match(/^\s*\/\/.*$/gm) ?? []).length;
}

function measure(name, pattern) {
  const paths = execFileSync("git", ["ls-files"], { encoding: "utf8" })
    .split("\n")
    .filter((path) => pattern.test(path));
  const texts = paths.map((path) => readFileSync(path, "utf8"));
  const lineCounts = texts.map((text) => text.split("\n").length - 1);
  const total = lineCounts.reduce((sum, count) => sum + count, 0);
  const functions = texts.flatMap((text, at) => functionLengths(paths[at], text));
  const code = texts.join("\n").replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
  const spread = [
    percentile(lineCounts, 0.5),
    percentile(lineCounts, 0.9),
    Math.max(...lineCounts),
  ];
  const perThousand = (found) => Number((((found ?? []).length / total) * 1000).toFixed(1));
  const comments = texts.reduce((sum, text) => sum + commentLines(text), 0);
  return {
    code: name,
    files: paths.length,
    lines: total,
    "file median/p90/max": spread.join("/"),
    functions: functions.length,
    "function p90/max": `${percentile(functions, 0.9)}/${Math.max(0, ...functions)}`,
    "comments %": Math.round((comments / total) * 100),
    "any ‰": perThousand(code.match(/(:|<|\bas)\s*any\s*[;,)>\]|&={}]/g)),
    "casts ‰": perThousand(code.match(/\bas (?!const\b)[A-Za-z{[]/g)),
    "! ‰": perThousand(code.match(/[\w)\]]!(?=[.;,)\]\s[])/g)),
  };
}

const rows = [
  measure("src", /^src\/.*\.ts$/),
  measure("native", /^native\/.*\.(cpp|h|cu)$/),
  measure("tools, bench", /^(tools|bench)\/.*\.mjs$/),
];
if (process.argv.includes("--json")) console.log(JSON.stringify(rows, null, 2));
else console.table(rows);
