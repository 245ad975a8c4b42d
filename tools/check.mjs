// node tools/check.mjs
//
// All that a change must pass, by the scripts of package.json: builds what is old, then runs the
// tests, and beside them the checks that only read files. A failure of these ends the tests.
import { spawn, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const CHECKS = [["types"], ["lint"], ["docs", "--", "--check"], ["tidy"]];
const npm = (words) => ["npm", ["run", "--silent", ...words]];

/** Runs a script of package.json; resolves to whether it passed and, of those aside, its output. */
function start(words, stdio) {
  const child = spawn(...npm(words), { cwd: root, stdio, detached: true });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk) => {
      output += chunk;
    });
  }
  const ended = new Promise((resolve) => {
    child.once("close", (code) => resolve({ passed: code === 0, output }));
  });
  return { child, ended };
}

/** With what it started: npm does not pass signals on to all of them. */
function stop({ pid, exitCode }) {
  if (pid === undefined || exitCode !== null) return;
  try {
    process.kill(-pid, "SIGTERM");
  } catch {
    // It has ended meanwhile.
  }
}

const running = new Set();
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    for (const child of running) stop(child);
    process.exit(1);
  });
}

/** Null: all passed; else what is said of the failure. */
async function readChecks() {
  for (const words of CHECKS) {
    const { child, ended } = start(words, ["ignore", "pipe", "pipe"]);
    running.add(child);
    const { passed, output } = await ended;
    running.delete(child);
    if (!passed) return `${output}\nnpm run ${words.join(" ")} failed`;
  }
  return null;
}

const built = spawnSync(...npm(["build", "--", "--usable", "--if-old"]), {
  ...{ cwd: root, stdio: "inherit" },
});
if (built.status !== 0) process.exit(1);

const tests = start(["unit"], ["ignore", "inherit", "inherit"]);
running.add(tests.child);
const checks = readChecks().then((failure) => {
  if (failure === null) console.log(`Passed: ${CHECKS.map(([name]) => name).join(", ")}`);
  else stop(tests.child);
  return failure;
});
const { passed } = await tests.ended;
running.delete(tests.child);
const failure = await checks;
if (failure !== null) console.error(failure);
process.exit(passed && failure === null ? 0 : 1);
