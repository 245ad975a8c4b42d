/*
 * node tools/try-install.mjs [RELEASE] [--only WORDS] [--runs 5] [--json FILE]
 *
 * Tries the tarballs of a release (tools/release.mjs) in empty folders, without a compiler in PATH:
 * npm with each Node, other package managers, musl, bundlers, @perigee/ai-sdk, and the speed beside
 * the checkout's. Prints a line for each trial: what was found, `failed` or `left out`, with why.
 * Times are from the start of a process to the first token of the bundled model, the best and the
 * median of --runs.
 *
 * Ends with 1 where a trial failed: something does not run or says no remedy, a tarball has more
 * than 80 MB, an installation more than 150 MB without optional packages of others, the first token
 * takes more than 2 s, or the installed package is slower than the checkout.
 *
 * --only: trials whose name has one of these words, with commas between. Needs npm's registry; Node
 * of other versions comes from there, too.
 */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags } from "./flags.mjs";
import { Cells } from "./install/cells.mjs";
import { releaseFiles } from "./install/release-files.mjs";
import { Missing, Workplace } from "./install/workplace.mjs";

const { values, positionals } = readFlags({
  allowPositionals: true,
  options: {
    only: { type: "string", default: "" },
    runs: { type: "number", default: 5, min: 1 },
    json: { type: "string", default: "" },
  },
});
const root = fileURLToPath(new URL("..", import.meta.url));

/** Of what a program said before it failed, in characters. */
const LINES_MAX = 2000;

/** One trial: how it ended, and a line about it. */
async function tryCell(trial) {
  try {
    return { result: "ok", text: await trial() };
  } catch (error) {
    const said = `${error.stdout ?? ""}${error.stderr ?? ""}`.slice(-LINES_MAX);
    const text = `${error.message.split("\n")[0]}\n${said}`.trim();
    return { result: error instanceof Missing ? "left out" : "failed", text };
  }
}

async function main(workplace) {
  const files = releaseFiles(resolve(positionals[0] ?? "release"));
  const cells = new Cells({ files, root, workplace, runs: values.runs });
  const words = values.only.split(",");
  const found = [];
  for (const [name, trial] of cells.all()) {
    if (!words.some((word) => name.includes(word.trim()))) continue;
    const cell = { name, ...(await tryCell(trial)) };
    found.push(cell);
    console.log(`${cell.result.padEnd(8)}  ${name.padEnd(30)}  ${cell.text}`);
  }
  if (values.json !== "") writeFileSync(values.json, `${JSON.stringify(found, null, 2)}\n`);
  const count = (result) => found.filter((cell) => cell.result === result).length;
  console.log(`${count("ok")} ok, ${count("failed")} failed, ${count("left out")} left out`);
  if (count("failed") > 0 || found.length === 0) process.exitCode = 1;
}

const workplace = new Workplace();
try {
  await main(workplace);
} finally {
  workplace.remove();
}
