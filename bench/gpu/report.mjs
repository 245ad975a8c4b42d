// node bench/gpu/report.mjs [--parts smoke,table] [--out FOLDER] [--budget SECONDS] [--keep]
//
// Everything that is to be shown on a GPU, one part after the other (report-parts.mjs), each in
// processes of its own with a limit: a part that fails, hangs or is missing something costs no
// other. A line per part; FOLDER (bench/.cache/gpu-report by default) has report.json, with the
// results of all parts, and report.txt, with the last lines that each printed. Both are written
// after each part. --keep: all output, too, in a file per part.
//
// --budget: a part that half its limit no longer fits is skipped, and one that its whole limit does
// not fit has what is left. Exits 1 if a part failed or was killed.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";
import { giveUp, requireBuild } from "./gpu-bench.mjs";
import { killAll, runLimited } from "./limited-child.mjs";
import { parts, root } from "./report-parts.mjs";

const { values: flags } = readFlags({
  options: {
    parts: { type: "string", default: Object.keys(parts).join(",") },
    out: { type: "string", default: "bench/.cache/gpu-report" },
    budget: { type: "number" },
    keep: { type: "boolean", default: false },
  },
});
const usualTail = 60;
const begun = performance.now();
const secondsSince = (then) => (performance.now() - then) / 1000;

await requireBuild();
const names = flags.parts.split(",");
for (const name of names) {
  if (!(name in parts)) {
    giveUp(`Cannot run ${name}: wanted some of ${Object.keys(parts).join(", ")}`);
  }
}
// Parts run elsewhere: in the root.
const folder = resolve(flags.out);
mkdirSync(folder, { recursive: true });
const files = flags.keep ? folder : mkdtempSync(join(tmpdir(), "perigee-report-"));

/** Seconds that a part may take; null: it does not fit. */
function allowance({ limit }) {
  if (flags.budget === undefined) return limit;
  const left = flags.budget - secondsSince(begun);
  return left < limit / 2 ? null : Math.min(limit, left);
}

/** A part's result as its file or its output has it; null: none came. */
function resultOf({ json }, file, text) {
  try {
    if (json === "stdout") return JSON.parse(/^\{$[\s\S]*?^\}$/m.exec(text)?.[0] ?? "null");
    return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null;
  } catch (error) {
    return { unreadable: error.message };
  }
}

/** Runs one part; what there is to say of it. */
async function runPart(name) {
  const part = parts[name];
  const limitSeconds = allowance(part);
  if (part.needs?.found() === false) return { name, state: `skipped: ${part.needs.remedy}` };
  if (limitSeconds === null) return { name, state: "skipped: no longer fits the budget" };
  const [file, json] = [join(files, `${name}.txt`), join(files, `${name}.json`)];
  rmSync(json, { force: true });
  const words = typeof part.json === "function" ? part.json(json) : [];
  const { state, rc, seconds } = await runLimited([...part.command, ...words], {
    ...{ cwd: root, file, limitSeconds },
  });
  const text = readFileSync(file, "utf8").trimEnd();
  const command = part.command.map((word) => (word === process.execPath ? "node" : word)).join(" ");
  const how = state === "killed" ? `killed after ${limitSeconds.toFixed(0)} s` : state;
  return { name, state: how, rc, seconds, command, text, result: resultOf(part, json, text) };
}

const lastLine = (text) => text.slice(text.lastIndexOf("\n") + 1).slice(0, 200);

/** A part in one line. */
function summary({ name, state, rc, seconds, text }) {
  if (seconds === undefined) return `${name.padEnd(13)}${state}`;
  const code = state === "ended" ? `rc ${rc}` : state;
  return `${name.padEnd(13)}${code}  ${seconds.toFixed(1)} s  ${lastLine(text)}`;
}

/** The last lines of a part, under what ran. */
function tail(done) {
  const { name, command = "", text = "" } = done;
  const lines = text.split("\n");
  const kept = parts[name].tail ?? usualTail;
  const cut = lines.length > kept ? [`(${lines.length - kept} lines before)`] : [];
  return [`== ${summary(done)}`, command, ...cut, ...lines.slice(-kept), ""].join("\n");
}

/** Writes what there is by now. */
function writeReport(all) {
  const seconds = secondsSince(begun);
  const said = all.map(({ text, name, ...rest }) => [
    name,
    { ...rest, lastLine: lastLine(text ?? "") },
  ]);
  const report = { machine: describeMachine(), seconds, parts: Object.fromEntries(said) };
  writeFileSync(join(folder, "report.json"), `${JSON.stringify(report, null, 2)}\n`);
  const lines = [...all.map(summary), "", ...all.map(tail)];
  writeFileSync(join(folder, "report.txt"), `${lines.join("\n")}\n`);
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    killAll();
    process.exit(1);
  });
}
const done = [];
for (const name of names) {
  done.push(await runPart(name));
  console.log(summary(done.at(-1)));
  writeReport(done);
}
if (!flags.keep) rmSync(files, { recursive: true, force: true });
const isBad = ({ state, rc }) => !state.startsWith("skipped") && (state !== "ended" || rc !== 0);
const bad = done.filter(isBad).map(({ name }) => name);
console.log(bad.length === 0 ? "all that ran is good" : `not good: ${bad.join(", ")}`);
console.log(`${secondsSince(begun).toFixed(0)} s; report.txt and report.json are in ${flags.out}`);
// A process that could not be killed must not keep this one.
process.exit(bad.length === 0 ? 0 : 1);
