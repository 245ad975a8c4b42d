import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Command } from "commander";
import { describe, expect, onTestFinished, test } from "vitest";
import { describeDevices } from "#devices";
import { COMMANDS } from "../../src/cli/commands.ts";
import { partsOf } from "../charts/svg-parts.ts";
import { writeGguf } from "../checkpoint/gguf-writer.ts";
import { quantizedFolder, recordedModule } from "../checkpoint/quantized-folder.ts";
import { scratchFolder } from "../checkpoint/scratch-folder.ts";
import { fixturePath } from "../contracts/recorded-model.ts";
import { full } from "../support/full.ts";
import { built, jsonLines, perigee, perigeeInside } from "./perigee.ts";

const llama = fixturePath("llama");
const devices = await describeDevices();
const hasGpu = devices.some(({ kind, available }) => kind === "cuda" && available);

test.for(COMMANDS)("$name has a help text without leftovers", async ({ name, load }) => {
  const command = new Command(name);
  (await load())(command, async () => command);
  for (const one of [command, ...command.commands]) {
    expect(one.helpInformation()).toMatch(/^Usage: /);
    expect(one.helpInformation()).not.toMatch(/undefined|\bnull\b|NaN|\[object|preset/);
  }
});

/** Prompts that a server has seen, others, and those of the chat route. */
async function measureAgain(url: string, sizes: readonly string[], seed: number): Promise<void> {
  const measure = (...words: string[]) =>
    perigeeInside(["bench", "serve", "--url", url, ...sizes, ...words]);
  const again = await measure("--seed", String(seed));
  expect(JSON.parse(again.stdout).cachedShare).toBeGreaterThan(0.9);
  expect(again.stderr).toMatch(
    /^perigee: (9\d|100) % of the prompt tokens were in the server's prefix cache/,
  );
  if (!full) return;
  const fresh = await measure();
  expect(JSON.parse(fresh.stdout).seed).not.toBe(seed);
  expect(fresh.stderr).toBe("");
  const chat = JSON.parse((await measure("--chat")).stdout);
  expect(chat).toMatchObject({ completed: 4, failed: 0, chat: true });
  expect(chat.promptTokens).toBeGreaterThan(4 * 64);
}

describe.runIf(built)("perigee", () => {
  test("lists its commands, and says how one is used", async () => {
    const { stdout } = await perigee(["--help"]);
    for (const { name } of COMMANDS) expect(stdout).toContain(`\n  ${name} `);
    const help = await perigeeInside(["help", "models"]);
    expect(help).toMatchObject({ code: 0, stderr: "" });
    expect(help.stdout).toMatch(/^Usage: perigee models /);
  });

  test("suggests the command that was meant", async () => {
    const ran = await perigeeInside(["generat"]);
    expect(ran).toEqual({
      code: 2,
      stdout: "",
      stderr: "perigee: unknown command 'generat' (Did you mean generate?)\n",
    });
  });

  test("says where help is for a command like no other", async () => {
    const ran = await perigeeInside(["nosuch"]);
    expect(ran).toMatchObject({ code: 2, stdout: "" });
    expect(ran.stderr).toBe("perigee: unknown command 'nosuch'; see perigee --help\n");
  });

  test("says where help is for what a command or subcommand does not take", async () => {
    const toBench = await perigeeInside(["bench", "serve", "--num-prompts", "1"]);
    expect(toBench.stderr).toBe(
      "perigee: unknown option '--num-prompts'; see perigee bench serve --help\n",
    );
    const toDoctor = await perigeeInside(["doctor", "a"]);
    expect(toDoctor.stderr).toMatch(/^perigee: too many arguments [^;]* got 1; see perigee doctor/);
  });

  test("prints its version", async () => {
    expect((await perigeeInside(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test("doctor says what there is and what is missing", async () => {
    const { code, stdout } = await perigee(["doctor"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/ok {6}reference/);
    expect(stdout).toMatch(
      /ok {6}KV cache of this model: device \d+ blocks, \d+ tokens, .* [MG]iB/,
    );
    expect(stdout).toMatch(/\nok {6}structured output\n/);
    expect(stdout).toMatch(/\nready.*: models run on (cuda|cpu|reference).*\n$/);
    expect(stdout).not.toMatch(/missing cuda|cpu cpu/);
    const found = JSON.parse((await perigeeInside(["doctor", "--json"])).stdout);
    expect(found).toMatchObject({ node: process.version, bundledModel: true, problem: null });
    expect(found.grammarProblem).toBeNull();
    expect(found.kvCache).toMatchObject([{ level: "device", blocks: expect.any(Number) }]);
    expect(found.devices.map(({ kind }: { kind: string }) => kind)).toContain("reference");
  });

  test.skipIf(hasGpu)("without a GPU, --device cuda says in one line what to do", async () => {
    const ran = await perigeeInside(["generate", "--device", "cuda", "-p", "x"]);
    expect(ran).toMatchObject({ code: 1, stdout: "" });
    expect(ran.stderr).toMatch(
      /^perigee: Cannot open the cuda device: .* use device: "cpu" \(--device cpu\)\n$/,
    );
  });

  test("models inspect shows a checkpoint", async () => {
    const { stdout } = await perigee(["models", "inspect", llama]);
    expect(stdout).toMatch(/^modelType +llama$/m);
    expect(stdout).toMatch(/^ {2}"hidden_size": 96,$/m);
    const found = JSON.parse(
      (await perigeeInside(["models", "inspect", llama, "--json", "--tensors"])).stdout,
    );
    expect(found).toMatchObject({ modelType: "llama", tokenizer: false, dtypes: ["f32"] });
    expect(found.tensorList).toHaveLength(found.tensors);
  });

  test("models inspect says how a GGUF stores its tensors", async () => {
    const file = join(mkdtempSync(join(tmpdir(), "perigee-inspect-")), "q4.gguf");
    onTestFinished(() => rmSync(dirname(file), { recursive: true }));
    const metadata = {
      "general.architecture": ["string", "llama"],
      "llama.embedding_length": ["u32", 32],
      "llama.block_count": ["u32", 1],
      "llama.attention.head_count": ["u32", 2],
      "llama.feed_forward_length": ["u32", 32],
      "llama.context_length": ["u32", 64],
      "llama.attention.layer_norm_rms_epsilon": ["f32", 1e-5],
    } as const;
    const tensors = [
      { name: "token_embd.weight", type: 0, shape: [4, 32], bytes: new Uint8Array(512) },
      { name: "blk.0.attn_q.weight", type: 3, shape: [32, 32], bytes: new Uint8Array(32 * 20) },
      { name: "output_norm.weight", type: 0, shape: [32], bytes: new Uint8Array(128) },
    ];
    writeFileSync(file, writeGguf({ metadata, tensors }));
    const words = ["models", "inspect", file, "--json", "--tensors"];
    const { stdout, stderr } = await perigeeInside(words);
    expect(stderr).toBe("");
    const found = JSON.parse(stdout);
    expect(found.dtypes).toEqual(["f32", "Q4_1"]);
    expect(found.tensorList[1]).toMatchObject({ dtype: "Q4_1", shape: [32, 32] });
  });

  test("models inspect says how quantised safetensors store their matrices", async () => {
    const { config, tensors } = recordedModule("awq, groups of 32");
    const folder = quantizedFolder(config, tensors);
    const found = JSON.parse((await perigeeInside(["models", "inspect", folder, "--json"])).stdout);
    expect(found.dtypes).toEqual(["f32", "awq-int4-g32"]);
    const stored = Object.values(tensors).reduce((sum, { bytes }) => sum + bytes.length, 0);
    expect(found).toMatchObject({ parameters: 16 * 96 + 2, bytes: stored + 8, tensors: 2 });
  });

  test("models list knows the bundled model, and an empty cache", async () => {
    const environment = { HF_HUB_CACHE: "/nowhere" };
    const { stdout } = await perigee(["models", "list", "--json"], { environment });
    expect(JSON.parse(stdout)).toEqual([
      { name: "(bundled) pocket", path: expect.stringContaining("pocket") },
    ]);
  });

  test("chat answers line by line from a pipe", async () => {
    const input = "What is a hash table?\n/new\nHello\n/exit\n";
    const ran = await perigee(["chat", "--max-tokens", "12", "--temperature", "0"], { input });
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout).toMatch(/^[^>\n].+\n[^>\n].+\n$/s);
  });

  test("chat needs a model that can", async () => {
    const ran = await perigeeInside(["chat", llama]);
    expect(ran.code).toBe(2);
    expect(ran.stderr).toContain("--chat-template FILE");
  });

  test.for(["latency", "throughput"])("bench %s measures and prints JSON", async (kind) => {
    const sizes = ["--input-length", "8", "--output-length", "4", "--prompts", "2"];
    const plot = join(scratchFolder(), "runs.svg");
    const words = ["bench", kind, llama, ...sizes, "--iterations", "2", "--plot", plot];
    const { code, stdout, stderr } = await perigeeInside(words);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(JSON.parse(stdout)).toMatchObject({
      benchmark: kind,
      prompts: 2,
      inputLength: 8,
      outputTokensPerSecond: expect.any(Number),
    });
    const { titles } = partsOf(readFileSync(plot, "utf8"));
    expect(titles.filter((title) => title.startsWith("runs: "))).toHaveLength(2);
  });

  test.runIf(full)("bench prints a row for people, too, beside the JSON", async () => {
    const sizes = ["--input-length", "8", "--output-length", "4", "--prompts", "2"];
    const words = ["bench", "latency", llama, ...sizes, "--iterations", "1", "--table"];
    const { stdout, stderr } = await perigee(words);
    expect(JSON.parse(stdout)).not.toHaveProperty("limits");
    expect(stderr).toMatch(/^ +work .*ratio.*\n2 x 8 in, 4 out /);
  });

  test("bench latency compares drafts with a run without them", async () => {
    const sizes = ["--input-length", "8", "--output-length", "40", "--prompts", "2"];
    const words = ["bench", "latency", llama, ...sizes, "--iterations", "1", "--table"];
    const { stdout, stderr } = await perigeeInside([...words, "--speculative", "lookup"]);
    const { speculation } = JSON.parse(stdout);
    expect(speculation).toMatchObject({
      ...{ kind: "lookup", lengthMax: 31, width: 1 },
      // One run of each kind says nothing about noise.
      ...{ speedUp: null, speedUpRange: [expect.any(Number), expect.any(Number)] },
    });
    // A warm-up and a timed run of 2 x 40 tokens with drafts.
    const { tokensPerStep, acceptedTokens } = speculation;
    expect(tokensPerStep).toBeCloseTo(160 / (160 - acceptedTokens), 10);
    expect(stderr).toMatch(/ tokens a step +x without drafts +least x +most x /);
  });

  test("bench serve needs a server", async () => {
    const ran = await perigeeInside(["bench", "serve", "--url", "http://127.0.0.1:9"]);
    expect(ran).toMatchObject({ code: 1, stdout: "" });
    expect(ran.stderr).toBe(
      "perigee: Cannot reach http://127.0.0.1:9: wanted a running server (perigee serve)\n",
    );
  });

  test("serves, alone on its port, is measured by bench serve, and ends at SIGTERM with what runs finished", async () => {
    const server = spawn(process.execPath, [
      ...["dist/cli/main.js", "serve", "--port", "0"],
      ...["--speculative", "lookup", "--speculative-width", "2"],
    ]);
    const exited = once(server, "exit");
    let log = "";
    const url = await new Promise<string>((resolve) => {
      server.stderr.on("data", (chunk) => {
        log += chunk;
        const found = /serving pocket at (\S+)/.exec(log);
        if (found?.[1] !== undefined) resolve(found[1]);
      });
    });
    const second = await perigee(["serve", "--port", new URL(url).port]);
    expect(second).toMatchObject({ code: 1, stdout: "" });
    expect(second.stderr).toMatch(/^perigee: Cannot listen on .*; choose another port\n$/);
    const sizes = ["--prompts", "4", "--input-length", "64", "--output-length", "8"];
    const { stdout, stderr } = await perigee(["bench", "serve", "--url", url, ...sizes]);
    expect(stderr).toBe("");
    const measured = JSON.parse(stdout);
    expect(measured).toMatchObject({ completed: 4, failed: 0, model: "pocket", cachedTokens: 0 });
    await measureAgain(url, sizes, measured.seed);
    const body = JSON.stringify({
      model: "pocket",
      prompt: "Hi",
      max_tokens: 400,
      ignore_eos: true,
    });
    const headers = { "content-type": "application/json" };
    const running = fetch(`${url}/v1/completions`, { method: "POST", headers, body });
    await new Promise((resolve) => setTimeout(resolve, 150));
    server.kill("SIGTERM");
    expect((await running).status).toBe(200);
    expect(await exited).toEqual([0, null]);
    // Standard error is no terminal here: start lines and request lines alike are JSON.
    const lines = jsonLines(log);
    expect(lines.map(({ msg }) => msg)).toContain("SIGTERM: finishing the running requests");
    expect(lines.find(({ url: at }) => at === url)).toMatchObject({ model: "pocket", level: 30 });
    const request = lines.find(({ url: path }) => path === "/v1/completions");
    expect(request).toMatchObject({
      status: 200,
      completionTokens: 8,
      requestId: expect.any(String),
    });
    for (const line of lines) expect(line).not.toHaveProperty("reqId");
    const said = lines.map(({ msg }) => msg).join("\n");
    expect(said).toMatch(/^running on cpu: .*$/m);
    expect(said).toMatch(/^drafts: by lookup, 2 continuations of up to 31 tokens in a step$/m);
    expect(said).toMatch(/^KV cache: device \d+ blocks, \d+ tokens, .* MiB$/m);
  });
});
