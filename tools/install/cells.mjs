// The cells of the matrix of installations. Each is a name and a trial that returns what it found,
// as a line, and throws where something is not as promised.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Arm64 } from "./arm64.mjs";
import { bundle } from "./bundles.mjs";
import { install } from "./managers.mjs";
import { commandTimes, firstTokens, outcome, speedBeside, writePrograms } from "./programs.mjs";
import { bytesOf, largestTarball, optionalBytes } from "./release-files.mjs";
import { output, put, tried } from "./workplace.mjs";

const TARBALL_BYTES_MAX = 80e6;
const INSTALLED_BYTES_MAX = 150e6;
const FIRST_TOKEN_MS_MAX = 2000;
/** Of the checkout's speed: two runs of one build differ by as much on a busy machine. */
const SPEED_RATIO_MIN = 0.93;
const AI_SDK = { ai: "7.0.173" };

const NODES = [20, 22, 24];
const MANAGERS = ["pnpm", "yarn 1", "yarn 4", "yarn 4 PnP", "npm --ignore-scripts"];
const PLATFORM = `${process.platform}-${process.arch}`;

function ensure(holds, problem) {
  if (!holds) throw new Error(problem);
}

const ms = ({ bestMs, medianMs }) => `${bestMs.toFixed(0)} (median ${medianMs.toFixed(0)}) ms`;
const MB = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;

export class Cells {
  #all;
  #root;
  #workplace;
  #runs;
  #installed = new Map();
  #emulated = null;

  constructor({ files, root, workplace, runs }) {
    this.#all = files;
    this.#root = root;
    this.#workplace = workplace;
    this.#runs = runs;
  }

  /** `[name, trial]`, in order. */
  all() {
    return [
      ["tarballs", () => this.#tarballs()],
      ...NODES.map((node) => [`npm, Node ${node}`, () => this.#whole("npm", node)]),
      ...MANAGERS.map((manager) => [`${manager}, Node 24`, () => this.#whole(manager, 24)]),
      ["npm, without the native package", () => this.#withoutNative()],
      ["npm on musl", () => this.#musl()],
      ["where Node tells of no glibc", () => this.#withoutGlibc()],
      ...["esbuild", "vite", "webpack"].flatMap((bundler) =>
        ["mjs", "cjs"].flatMap((extension) => [
          [`${bundler} ${extension}`, () => this.#bundle(bundler, extension)],
          ...(bundler === "webpack"
            ? []
            : [[`${bundler} ${extension}, ours inside`, () => this.#inline(bundler, extension)]]),
        ]),
      ),
      ["@perigee/ai-sdk in process", () => this.#aiSdkInProcess()],
      ["@perigee/ai-sdk by URL", () => this.#aiSdkByUrl()],
      ["types", () => this.#types()],
      ["linux-arm64 by QEMU, doctor", () => this.#arm64Doctor()],
      ["linux-arm64 by QEMU, tokens", () => this.#arm64Tokens()],
      ["linux-arm64 by QEMU, every op", () => this.#arm64().ops(this.#root)],
      ["speed beside the checkout", () => this.#speed()],
    ];
  }

  /** The folder in which a manager has installed packages for a Node, once for all trials. */
  #install(manager, version, names = ["perigee", `@perigee/native-${PLATFORM}`], others = []) {
    const key = [manager, version, ...names].join(" ");
    let place = this.#installed.get(key);
    if (place === undefined) {
      const folder = this.#workplace.empty(key);
      const env = this.#workplace.environment(version);
      const packages = [...names.map((name) => [name, this.#file(name)]), ...others];
      place = { folder, ...install({ manager, folder, env, packages, all: this.#all }) };
      writePrograms(folder);
      this.#installed.set(key, place);
    }
    return place;
  }

  #file(name) {
    const path = this.#all.get(name);
    if (path === undefined) throw new Error(`the release has no ${name}`);
    return path;
  }

  #tarballs() {
    const bytes = largestTarball(this.#all);
    ensure(bytes <= TARBALL_BYTES_MAX, `a tarball has ${MB(bytes)}, at most 80`);
    return `${this.#all.size}, the largest ${(bytes / 1e6).toFixed(1)} MB`;
  }

  async #whole(manager, version) {
    const place = this.#install(manager, version);
    const found = firstTokens({ ...place, runs: this.#runs });
    ensure(/^cpu/.test(found.device), `the model runs on ${found.device}`);
    ensure(found.warnings.length === 0, found.warnings.join("\n"));
    const parts = [`${found.device}, first token ${ms(found)}`];
    if (place.main !== null) parts.push(...(await this.#commands(place)), this.#size(place));
    // Plug'n'Play's loader reads every module out of archives, for every thread anew.
    const isPlain = place.main !== null;
    ensure(!isPlain || found.bestMs <= FIRST_TOKEN_MS_MAX, `the first token took ${ms(found)}`);
    return `${parts.join(", ")}; installed in ${place.seconds.toFixed(0)} s`;
  }

  async #commands(place) {
    const times = await commandTimes({ ...place, runs: this.#runs });
    return Object.entries(times).map(([name, time]) => {
      ensure(time.bestMs <= FIRST_TOKEN_MS_MAX, `perigee ${name} took ${ms(time)}`);
      return `${name} ${ms(time)}`;
    });
  }

  #size({ folder }) {
    const modules = join(folder, "node_modules");
    const [all, optional] = [bytesOf(modules), optionalBytes(modules)];
    ensure(all - optional <= INSTALLED_BYTES_MAX, `${MB(all - optional)} were installed`);
    return `${MB(all - optional)} and ${MB(optional)} optional`;
  }

  #withoutNative() {
    const place = this.#install("npm", 24, ["perigee"]);
    const { device, warnings } = firstTokens({ ...place, runs: 1 });
    ensure(/reference/.test(device), `the model runs on ${device}`);
    const remedy = warnings.find((text) => text.includes(`@perigee/native-${PLATFORM}`));
    ensure(remedy !== undefined, `no warning says what to install: ${warnings.join("\n")}`);
    return `runs on ${device}; says: ${remedy}`;
  }

  #musl() {
    return this.#toldOfMusl(this.#install("npm", "musl", ["perigee"]));
  }

  /** As with musl: npm leaves the native package out, and Node's report names no glibc. */
  #withoutGlibc() {
    const { folder, env } = this.#install("npm", 24, ["perigee"]);
    put(folder, "no-glibc.cjs", NO_GLIBC);
    const hook = `--require ${join(folder, "no-glibc.cjs")}`;
    return this.#toldOfMusl({ folder, env: { ...env, NODE_OPTIONS: hook } });
  }

  #toldOfMusl(place) {
    const { device, warnings, firstTokenMs } = firstTokens({ ...place, runs: 1 });
    const remedy = warnings.find((text) => text.includes("musl"));
    ensure(remedy !== undefined, `no warning names musl: ${warnings.join("\n")}`);
    return `runs on ${device}, first token ${firstTokenMs.toFixed(0)} ms; says: ${remedy}`;
  }

  #bundleOf(bundler, extension, isInline) {
    const { folder: installed, env } = this.#install("npm", 24);
    const how = { bundler, extension, isInline, installed };
    const made = bundle({ ...how, root: this.#root, workplace: this.#workplace });
    return outcome({ ...made, env });
  }

  #bundle(bundler, extension) {
    const { status, stdout, stderr } = this.#bundleOf(bundler, extension, false);
    ensure(status === 0 && stdout === "tokens 3\n", `it ended with ${status}: ${stderr}`);
    return "runs, with perigee external";
  }

  #inline(bundler, extension) {
    const { status, stderr } = this.#bundleOf(bundler, extension, true);
    const [, message] = /^Error: (Cannot run from a bundle: .{40})/m.exec(stderr) ?? [];
    ensure(status !== 0 && message !== undefined, `it ended with ${status}: ${stderr}`);
    return `says: ${message}…`;
  }

  #aiSdk() {
    const names = ["perigee", `@perigee/native-${PLATFORM}`, "@perigee/ai-sdk"];
    const others = Object.entries(AI_SDK).map(([name, version]) => [name, `${name}@${version}`]);
    return this.#install("npm", 24, names, others);
  }

  #aiSdkInProcess() {
    const { folder, env } = this.#aiSdk();
    put(folder, "ai.mjs", AI_IN_PROCESS);
    return `answers: ${output("node", ["ai.mjs"], { cwd: folder, env }).trim()}`;
  }

  async #aiSdkByUrl() {
    const { folder, env, main } = this.#aiSdk();
    put(folder, "ai-url.mjs", AI_BY_URL);
    const server = spawn("node", [main, "serve", "--port", "0"], { cwd: folder, env });
    try {
      const url = await addressOf(server);
      return `answers: ${output("node", ["ai-url.mjs", url], { cwd: folder, env }).trim()}`;
    } finally {
      server.kill("SIGTERM");
    }
  }

  /** README's program in TypeScript, against the declarations that are installed. */
  #types() {
    const { folder, env } = this.#aiSdk();
    put(folder, "app.mts", TYPED);
    const compiler = join(this.#root, "node_modules", "typescript", "bin", "tsc");
    const flags = ["--strict", "--module", "nodenext", "--target", "es2023", "--skipLibCheck"];
    const types = ["--types", "node", "--typeRoots", join(this.#root, "node_modules", "@types")];
    const words = [compiler, "--noEmit", ...flags, ...types, "app.mts"];
    const { status, stdout } = tried("node", words, { cwd: folder, env });
    ensure(status === 0, stdout);
    return "a TypeScript program compiles";
  }

  #arm64() {
    this.#emulated ??= new Arm64({ workplace: this.#workplace, files: this.#all });
    return this.#emulated;
  }

  #arm64Doctor() {
    const line = this.#arm64()
      .perigee(["doctor"])
      .split("\n")
      .find((text) => /neon/i.test(text));
    ensure(line !== undefined, "perigee doctor does not name neon");
    return line.trim();
  }

  /** The tokens of this processor's own library. */
  #arm64Tokens() {
    const { device, text, firstTokenMs } = this.#arm64().firstToken();
    ensure(/neon/.test(device), `the model runs on ${device}`);
    const here = firstTokens({ ...this.#install("npm", 24), runs: 1 });
    ensure(text === here.text, `${JSON.stringify(text)}, on this processor ${here.text}`);
    return `${device}, the same text as on ${PLATFORM}, in ${(firstTokenMs / 1000).toFixed(0)} s`;
  }

  #speed() {
    const place = this.#install("npm", 20);
    const checkout = pathToFileURL(join(this.#root, "dist", "index.js")).href;
    const rounds = Math.max(2, this.#runs);
    const { installed, checkout: built } = speedBeside(checkout, { ...place, rounds });
    return ["decode", "prefill"]
      .map((kind) => {
        const ratio = installed[kind] / built[kind];
        const [own, theirs] = [installed[kind].toFixed(0), built[kind].toFixed(0)];
        const text = `${kind} ${own} against ${theirs} tokens/s`;
        ensure(ratio >= SPEED_RATIO_MIN, `${text}: ${ratio.toFixed(2)} of the checkout's`);
        return text;
      })
      .join(", ");
  }
}

/** Where a server listens, as its first lines tell. */
async function addressOf(server) {
  let text = "";
  for (const stream of [server.stdout, server.stderr]) {
    stream.on("data", (chunk) => {
      text += chunk;
    });
  }
  while (server.exitCode === null) {
    const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(text) ?? [];
    if (url !== undefined) return url;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`perigee serve ended: ${text}`);
}

const NO_GLIBC = `
const report = process.report.getReport.bind(process.report);
process.report.getReport = () => {
  const { header, ...others } = report();
  return { ...others, header: { ...header, glibcVersionRuntime: undefined } };
};
`;

const AI_IN_PROCESS = `
import { createPerigee } from "@perigee/ai-sdk";
import { generateText } from "ai";
import { LLM } from "perigee";
const llm = await LLM.load();
const model = createPerigee({ llm })();
const options = { model, prompt: "Who are you?", maxOutputTokens: 16, temperature: 0 };
const { text, usage } = await generateText(options);
if (text === "" || usage.inputTokens < 1) throw new Error("no answer");
console.log(text.replaceAll("\\n", " "));
await llm.close();
`;

const AI_BY_URL = `
import { createPerigee } from "@perigee/ai-sdk";
import { streamText } from "ai";
const model = createPerigee({ baseURL: process.argv[2] + "/v1", apiKey: "none" })("pocket");
const options = { model, prompt: "Who are you?", maxOutputTokens: 16, temperature: 0 };
const { textStream } = streamText(options);
let text = "";
for await (const part of textStream) text += part;
if (text === "") throw new Error("no answer");
console.log(text.replaceAll("\\n", " "));
`;

const TYPED = `
import { createPerigee } from "@perigee/ai-sdk";
import { LLM } from "perigee";
const llm: LLM = await LLM.load();
const stream = llm.stream("Hello", { maxTokens: 3 });
for await (const { text } of stream) process.stdout.write(text ?? "");
export const model = createPerigee({ llm })();
await llm.close();
`;
