// node bench/peer/install.mjs: node-llama-cpp with the CPU binary of this platform only, which is
// 85 MB instead of 725 MB.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync } from "node:fs";
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

/**
 * Leaves llama.cpp one variant of its CPU library (haswell, zen4, sapphirerapids, …); null: all of
 * them, of which it takes the best.
 */
export function limitPeer(variant) {
  const folder = `${here}node_modules/@node-llama-cpp/linux-x64/bins/linux-x64`;
  const aside = `${folder}/aside`;
  if (!existsSync(folder)) return;
  mkdirSync(aside, { recursive: true });
  for (const name of readdirSync(aside)) renameSync(`${aside}/${name}`, `${folder}/${name}`);
  if (variant === null) return;
  const all = readdirSync(folder).filter((name) => name.startsWith("libggml-cpu-"));
  const kept = `libggml-cpu-${variant}.so`;
  if (!all.includes(kept)) throw new Error(`no ${kept} among ${all.join(", ")}`);
  for (const name of all) if (name !== kept) renameSync(`${folder}/${name}`, `${aside}/${name}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) installPeer();
