// node tools/build.mjs [--own | --usable] [--if-old]
//
// Builds what a checkout runs: TypeScript and the page, the native libraries, the grammar library.
// --own and --usable build fewer native libraries (tools/build-native.mjs). --if-old leaves
// TypeScript as it is where it was built of this source.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { buildTypeScript, canBuildTypeScript } from "./typescript-build.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const words = process.argv.slice(2);

function run(script, ...flags) {
  const { status } = spawnSync(process.execPath, [script, ...flags], {
    cwd: root,
    stdio: "inherit",
  });
  if (status !== 0) process.exit(status ?? 1);
}

if (canBuildTypeScript()) buildTypeScript({ ifOld: words.includes("--if-old") });
run("tools/build-native.mjs", ...words.filter((word) => /^--(own|usable)$/.test(word)));
run("tools/build-grammar.mjs", "--if-missing");
