// node bench/peer/install.mjs: node-llama-cpp with the CPU binary of this platform only, which is
// 85 MB instead of 725 MB.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const VERSION = "3.22.1";
const here = fileURLToPath(new URL(".", import.meta.url));

export function installPeer() {
  if (existsSync(`${here}/node_modules/node-llama-cpp`)) return;
  const platform = process.platform === "darwin" ? "mac-arm64-metal" : `linux-${process.arch}`;
  const binary = `@node-llama-cpp/${platform}`;
  const options = ["--no-save", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"];
  const packages = [`node-llama-cpp@${VERSION}`, `${binary}@${VERSION}`];
  execFileSync("npm", ["install", ...options, ...packages], { cwd: here, stdio: "inherit" });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) installPeer();
