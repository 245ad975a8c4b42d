/*
 * node tools/try-image.mjs [RELEASE]
 *
 * The last stage of deploy/Dockerfile replayed in a root folder, where no container engine runs:
 * its installation of a release's tarballs, its environment, entry point and health check, and what
 * SIGTERM does while a stream runs. Prints JSON: `addedMB` is what the stage adds to the image that
 * it begins with. Ends with 1 where the stream was cut or the server did not end well.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags } from "./flags.mjs";
import { bytesOf } from "./install/release-files.mjs";

const PORT = 18_473;
const HEALTHY_MS = 60_000;
const { positionals } = readFlags({ allowPositionals: true, options: {} });
const release = resolve(positionals[0] ?? "release");
const root = mkdtempSync(join(tmpdir(), "perigee-image-"));

/** The last stage of the Dockerfile, with lines that go on joined. */
function lastStage() {
  const file = fileURLToPath(new URL("../deploy/Dockerfile", import.meta.url));
  const text =
    readFileSync(file, "utf8")
      .split(/^FROM /m)
      .at(-1) ?? "";
  return text.replaceAll("\\\n", " ").split("\n");
}

const stage = lastStage();
const instruction = (name) => stage.find((line) => line.startsWith(`${name} `))?.slice(name.length);
const wordsOf = (text) => JSON.parse(text.slice(text.indexOf("[")));

/** Paths of the image in the root folder. */
const inRoot = (text) => text.replaceAll("/usr/local/lib", join(root, "usr/local/lib"));

function environment() {
  const lines = stage.filter((line) => line.startsWith("ENV "));
  const pairs = lines.flatMap((line) => line.slice(4).trim().split(/\s+/));
  const own = Object.fromEntries(pairs.map((pair) => pair.split("=")));
  return { ...process.env, ...own, PERIGEE_PORT: String(PORT), PERIGEE_HOST: "127.0.0.1" };
}

function install() {
  const flags = (/npm install (--global.*?) \/release/.exec(stage.join("\n"))?.[1] ?? "").split(
    " ",
  );
  const platform = `${process.platform}-${process.arch}`;
  const wanted = new RegExp(`^perigee-(\\d|native-${platform}-)`);
  const files = readdirSync(release).filter((name) => name.endsWith(".tgz") && wanted.test(name));
  const paths = files.map((name) => join(release, name));
  const words = ["install", ...flags, "--prefix", join(root, "usr/local"), ...paths];
  const { status } = spawnSync("npm", words, { stdio: ["ignore", "ignore", "inherit"] });
  if (status !== 0) throw new Error("the installation failed");
}

async function untilHealthy(env) {
  const [command, ...words] = wordsOf(instruction("HEALTHCHECK") ?? "");
  const startMs = performance.now();
  while (performance.now() - startMs < HEALTHY_MS) {
    if (spawnSync(command, words, { env }).status === 0) return performance.now() - startMs;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error("the health check never passed");
}

/** Asks for a stream, sends SIGTERM when it has begun, and reads it to its end. */
async function streamThrough(server) {
  const answer = await fetch(`http://127.0.0.1:${PORT}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "Hello", max_tokens: 300, ignore_eos: true, stream: true }),
  });
  let text = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    if (text === "") server.kill("SIGTERM");
    text += chunk;
  }
  return text;
}

async function main() {
  install();
  const env = environment();
  const words = [...wordsOf(instruction("ENTRYPOINT") ?? ""), ...wordsOf(instruction("CMD") ?? "")];
  const [command, ...rest] = words.map(inRoot);
  const server = spawn(command, rest, { env, stdio: ["ignore", "inherit", "inherit"], cwd: root });
  const ended = once(server, "exit");
  try {
    const healthyMs = Math.round(await untilHealthy(env));
    const text = await streamThrough(server);
    const [code, signal] = await ended;
    const isWhole = text.includes('"finish_reason":"length"') && text.includes("[DONE]");
    const addedMB = Math.round(bytesOf(root) / 1e6);
    console.log(JSON.stringify({ addedMB, healthyMs, isWhole, code, signal }, null, 2));
    process.exitCode = isWhole && code === 0 ? 0 : 1;
  } finally {
    server.kill("SIGKILL");
  }
}

try {
  await main();
} finally {
  rmSync(root, { recursive: true, force: true });
}
