import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { configure } from "../../../src/cli/configuration/apply.ts";
import { configurationText } from "../../../src/cli/configuration/print.ts";
import { withPlainSwitches } from "../../../src/cli/flag-option.ts";
import { loadProgram } from "../../../src/cli/program.ts";
import { perigeeInside } from "../perigee.ts";
import { temporaryFile } from "./settings-file.ts";

/** A command as it is called with words, a file and an environment. */
async function called(
  words: readonly string[],
  {
    text,
    environment = {},
  }: { readonly text?: string; readonly environment?: Record<string, string> },
): Promise<{ readonly command: Command; readonly printed: string }> {
  const root = await loadProgram(words[0]);
  let command: Command = root;
  for (const word of words) {
    command = command.commands.find((each) => each.name() === word) ?? command;
  }
  for (const each of [root, ...root.commands]) each.configureOutput({ writeErr: () => {} });
  command.action(() => {});
  root.exitOverride();
  const file = text === undefined ? undefined : temporaryFile("perigee.yaml", text);
  // The program's own hook reads no file here: the request below is the one that is tested.
  const plain = withPlainSwitches(words, command.options);
  await root.parseAsync(plain, { from: "user" });
  const sources = await configure(command, {
    file,
    environment,
    all: () => loadProgram("*"),
  });
  return { command, printed: configurationText(command, sources) };
}

const optionOf = async (
  key: string,
  words: readonly string[],
  given: Parameters<typeof called>[1] = {},
) => (await called(words, given)).command.opts()[key];

describe("a flag wins over a variable, a variable over the file, the file over the default", () => {
  const text = "port: 1\nserve:\n  port: 2\n";
  const environment = { PERIGEE_PORT: "3" };
  test("the default", async () => {
    expect(await optionOf("port", ["serve"])).toBeUndefined();
  });
  test("the file's section over its top", async () => {
    expect(await optionOf("port", ["serve"], { text })).toBe(2);
    expect(await optionOf("port", ["worker"], { text })).toBe(1);
  });
  test("the environment", async () => {
    expect(await optionOf("port", ["serve"], { text, environment })).toBe(3);
  });
  test("the flag", async () => {
    expect(await optionOf("port", ["serve", "--port", "4"], { text, environment })).toBe(4);
  });
});

test("the model is a key, below its argument", async () => {
  const text = "model: models/pocket\n";
  const { command } = await called(["generate"], { text });
  expect(command.processedArgs[0]).toBe("models/pocket");
  const given = await called(["generate", "other/model"], { text });
  expect(given.command.processedArgs[0]).toBe("other/model");
});

test("values of each type are those that flags give", async () => {
  const text = `
kv-pool-bytes: 1.5GiB
overlap-steps: off
prefix-caching: false
ignore-eos: true
threads: none
seed: 7
stop-token-ids: [1, 2]
structured-output: {jsonObject: true}
retention:
  ranges: [{start: 0, priority: 90}]
`;
  const { command } = await called(["generate"], { text });
  const words = ["--kv-pool-bytes", "1610612736", "--overlap-steps", "off", "--prefix-caching=off"];
  const more = ["--ignore-eos", "--threads", "none", "--seed", "7"];
  const lists = ["--stop-token-ids", "1,2", "--structured-output", '{"jsonObject":true}'];
  const kept = ["--retention", '{"ranges":[{"start":0,"priority":90}]}'];
  const flags = await called(["generate", ...words, ...more, ...lists, ...kept], {});
  expect(command.opts()).toEqual(flags.command.opts());
});

test("flags without a schema read a file's values, too", async () => {
  const text = "replay:\n  capacity: [10, inf]\n  policy: lru\n  json: true\n  block-tokens: 16\n";
  const { command } = await called(["replay", "trace.jsonl"], { text });
  expect(command.opts()).toMatchObject({
    ...{ capacity: [10, Number.POSITIVE_INFINITY], policy: ["lru"], json: true, blockTokens: 16 },
  });
});

test("the name of a command is its section, also where a flag has it", async () => {
  const text = "worker:\n  port: 1\nroute:\n  worker: [http://a, http://b]\n";
  expect(await optionOf("worker", ["route"], { text })).toEqual(["http://a", "http://b"]);
  expect(await optionOf("port", ["worker"], { text })).toBe(1);
});

test("subcommands have sections in their command's", async () => {
  const text = "url: http://a\nbench:\n  url: http://b\n  prompts: 3\n  serve:\n    prompts: 4\n";
  const { command } = await called(["bench", "serve"], { text });
  expect(command.opts()).toMatchObject({ url: "http://b", prompts: 4 });
});

describe("a wrong line is named, with what to do", () => {
  test.for<[string, string]>([
    [
      "kv-pool-byts: 1",
      "line 1, column 1: kv-pool-byts is no setting and no command of perigee; did you mean kv-pool-bytes?",
    ],
    ["kvPoolBytes: 1", "did you mean kv-pool-bytes?"],
    [
      "serv:\n  port: 1",
      "line 1, column 1: serv is no setting and no command of perigee; did you mean serve?",
    ],
    [
      "serve:\n  ports: 1",
      "line 2, column 3: ports is no setting of perigee serve; did you mean port?",
    ],
    [
      "serve:\n  routing-policy-x-y-z: 1",
      "keys are flags without dashes, see perigee serve --help",
    ],
    [
      "serve:\n  redis: a",
      "redis is no setting of perigee serve, but of perigee worker: move it there",
    ],
    ["serve: 8000", "serve must be a map, such as port: 8000"],
    ["- port", "a file of settings must be a map, such as port: 8000"],
    ["port: eighty", "line 1, column 7: port must be a number, current value is eighty"],
    ["port: true", "port must be a number, current value is true"],
    ["port: 8000.5", "line 1, column 1: port must be an integer, current value is 8000.5"],
    ["port: 99999", "line 1, column 1: port must be at most 65535, current value is 99999"],
    ["port: [1, 2]", "port must be a number, current value is a list; write one value"],
    ["port: {a: 1}", "port must be a number, current value is a map; write one value"],
    ["port:", "port must be a number; remove the line for the default"],
    ["kv-pool-bytes: 1G", "1G could be 1GB or 1GiB, current value is 1G"],
    ["kv-pool-bytes: 3 tokens", "kv-pool-bytes must be a number of bytes, or one with a unit"],
    ["kv-pool-bytes: -1", "kv-pool-bytes must be more than 0, current value is -1"],
    [
      "stuck-after-ms: 30s",
      "stuck-after-ms must be a number of milliseconds, current value is 30s; write 30000",
    ],
    ["stuck-after-ms: 2 min", "write 120000"],
    [
      "threads: 4 cores",
      "threads must be a number or null, current value is 4 cores; write the number alone: 4",
    ],
    [
      "prefix-caching: maybe",
      "prefix-caching must be on, true, 1, off, false or 0, current value is maybe",
    ],
    ["device: gpu", "device must be auto, cpu, cuda or reference, current value is gpu"],
    ["device: cpuu", "did you mean cpu?"],
    [
      "revision: 1.10",
      'revision must be a text, current value is 1.10; write it in quotes: "1.10"',
    ],
    ["model: 7", "model must be a text: a folder, a file or ORG/NAME"],
    ["served-model-name: [a, 2]", "served-model-name must be a text"],
    ["disk-cache-bytes: 1GiB", "must name a folder when --disk-cache-bytes is set"],
  ])("%j", async ([text, message]) => {
    await expect(called(["serve"], { text })).rejects.toThrow(message);
  });

  test("of flags without a schema, too", async () => {
    const bad = (text: string) => called(["bench", "serve"], { text });
    await expect(bad("bench:\n  prompts: none")).rejects.toThrow(
      "line 2, column 12: prompts must be 1 or more, current value is none",
    );
    await expect(bad("bench:\n  chat: yes")).rejects.toThrow("chat must be true or false");
  });

  test("even where a flag wins", async () => {
    await expect(called(["serve", "--port", "1"], { text: "port: x" })).rejects.toThrow("line 1");
  });
});

describe("variables", () => {
  test("are read as flags are", async () => {
    const environment = {
      ...{ PERIGEE_KV_POOL_BYTES: "2MiB", PERIGEE_DEVICE: "cpu", PERIGEE_OVERLAP_STEPS: "off" },
      ...{ PERIGEE_MODEL: "models/pocket", PERIGEE_SERVED_MODEL_NAME: '["a", "b"]' },
    };
    const { command } = await called(["serve"], { environment });
    expect(command.opts()).toMatchObject({
      ...{ kvPoolBytes: 2097152, device: "cpu", overlapSteps: false },
      servedModelName: ["a", "b"],
    });
    expect(command.processedArgs[0]).toBe("models/pocket");
  });

  test("are named where they are wrong", async () => {
    const bad = (environment: Record<string, string>) => called(["serve"], { environment });
    await expect(bad({ PERIGEE_PORT: "x" })).rejects.toThrow(
      "Cannot use PERIGEE_PORT: must be a number, current value is x",
    );
    await expect(bad({ PERIGEE_PORT: "99999" })).rejects.toThrow(
      "Cannot use PERIGEE_PORT: must be at most 65535, current value is 99999",
    );
    await expect(bad({ PERIGEE_PORT: "tcp://10.0.0.1:80" })).rejects.toThrow(
      "Cannot use PERIGEE_PORT: must be a number, current value is tcp://10.0.0.1:80, as Kubernetes " +
        "sets it for a Service; give the pod enableServiceLinks: false",
    );
  });

  test("an empty one is none", async () => {
    expect(
      await optionOf("port", ["serve"], { environment: { PERIGEE_PORT: "" } }),
    ).toBeUndefined();
  });
});

describe("keys of a server are never those of two sources", () => {
  const text = "api-key-file: keys.txt\napi-key: from-file\n";
  test("a variable hides the file's", async () => {
    const { command } = await called(["serve"], { text, environment: { PERIGEE_API_KEY: "k" } });
    expect(command.opts().apiKeyFile).toBeUndefined();
    expect(command.opts().apiKey).toBeUndefined(); // the server reads the variable itself
  });
  test("a flag hides both", async () => {
    const words = ["serve", "--api-key-file", "mine.txt"];
    const environment = { PERIGEE_API_KEY: "k" };
    const { command } = await called(words, { text, environment });
    expect(command.opts()).toMatchObject({ apiKeyFile: "mine.txt" });
    expect(command.opts().apiKey).toBeUndefined();
  });
});

describe("--print-config", () => {
  const text = "kv-pool-bytes: 64MiB\nserve:\n  port: 8001\n  api-key: secret-word\n";

  test("shows each value and its source, and no secret", async () => {
    const environment = { PERIGEE_HOST: "::1" };
    const { printed } = await called(["serve", "--device", "cpu"], { text, environment });
    expect(printed).toMatch(/^serve:$/m);
    expect(printed).toMatch(/^ {2}port: 8001 {2}# .*perigee\.yaml, line 3$/m);
    expect(printed).toMatch(/^ {2}kv-pool-bytes: 64MiB {2}# .*line 1$/m);
    expect(printed).toMatch(/^ {2}host: "?::1"? {2}# PERIGEE_HOST$/m);
    expect(printed).toMatch(/^ {2}device: cpu {2}# flag$/m);
    expect(printed).toMatch(/^ {2}# block-tokens: 16$/m);
    expect(printed).not.toContain("secret-word");
  });

  test.for(["serve", "worker", "route", "generate", "chat", "bench serve"])(
    "%s: what it prints is a file that means the same",
    async (name) => {
      const words = name.split(" ");
      const first = await called(words, { text: "model: models/pocket\nport: 8001\nseed: 3\n" });
      const again = await called(words, { text: first.printed });
      expect(again.command.opts()).toEqual(first.command.opts());
    },
  );

  test("ends without doing the command's work", async () => {
    const file = temporaryFile("perigee.yaml", text);
    const ran = await perigeeInside(["serve", "--config", file, "--print-config"]);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout).toContain("port: 8001");
  });
});
