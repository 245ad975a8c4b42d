// Runs on `npm ci` in a checkout: builds TypeScript, the page and the native library, so that a
// checkout is ready to use.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

function run(command, args) {
  const result = spawnSync(command, args, { cwd: root, stdio: "inherit" });
  if (result.status !== 0) process.exit(result.status ?? 1);
}

// `npx perigee` in a checkout links it into npx's cache, and npm prepares it for that. What is
// built is used as it is: a build would be silent for a minute, and one that fails or is
// interrupted leaves that cache broken, so that every later `npx perigee` here fails.
if (process.env.npm_command === "exec" && existsSync(`${root}/dist/cli/main.js`)) process.exit();

const tsc = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
if (existsSync(`${root}/src`) && existsSync(tsc)) {
  console.error("perigee: compiling TypeScript");
  run(process.execPath, [tsc, "-p", "tsconfig.build.json"]);
  run(process.execPath, ["tools/declaration-texts.mjs"]);
  run(process.execPath, ["tools/spread-literals.mjs"]);
  run(process.execPath, ["tools/join-modules.mjs"]);
  run(process.execPath, [tsc, "-p", "packages/ai-sdk"]);
  run(process.execPath, ["tools/build-dashboard.mjs"]);
}
run(process.execPath, ["tools/build-native.mjs", "--own"]);
run(process.execPath, ["tools/build-grammar.mjs", "--if-missing"]);
