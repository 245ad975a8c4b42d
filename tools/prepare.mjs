// Runs on `npm ci` in a checkout: builds TypeScript, the page and the native library, so that a
// checkout is ready to use.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

// `npx perigee` in a checkout links it into npx's cache, and npm prepares it for that. What is
// built is used as it is: a build would be silent for a minute, and one that fails or is
// interrupted leaves that cache broken, so that every later `npx perigee` here fails.
if (process.env.npm_command === "exec" && existsSync(at("dist/cli/main.js"))) process.exit();

console.error("perigee: compiling");
process.argv.push("--own");
await import("./build.mjs");
