import { Command } from "commander";
import { expect, test } from "vitest";
import { z } from "zod";
import { WorkerOptions } from "#cluster";
import { EngineOptions } from "#engine";
import { ServerOptions } from "#server";
import { engineFlags } from "../../src/cli/engine-flags.ts";
import { withPlainSwitches } from "../../src/cli/flag-option.ts";
import { SchemaFlags } from "../../src/cli/flags.ts";
import { loadProgram } from "../../src/cli/program.ts";
import { samplingFlags } from "../../src/cli/sampling-flags.ts";

const sampling = samplingFlags({ maxTokens: 128 });

/** The settings and the model that a command line stands for. */
function settingsOf(words: readonly string[], flags: SchemaFlags = sampling) {
  const command = new Command("generate").argument("[model]").exitOverride();
  command.configureOutput({ writeErr: () => {} });
  flags.addTo(command, "Sampling:");
  command.parse(withPlainSwitches(words, command.options), { from: "user" });
  flags.check(command.opts());
  return { settings: flags.collect(command.opts()), model: command.args[0] };
}

test.for<[string, boolean]>([
  ["--ignore-eos", true],
  ["--ignore-eos on", true],
  ["--ignore-eos=on", true],
  ["--ignore-eos off", false],
  ["--ignore-eos=off", false],
  ["--ignore-eos --seed 1", true],
])("%s is %s", ([words, value]) => {
  const { settings, model } = settingsOf(words.split(" "));
  expect(settings.ignoreEos).toBe(value);
  expect(model).toBeUndefined();
});

test.for<[string, boolean | string]>([
  ["--early-stopping never", "never"],
  ["--early-stopping=never", "never"],
  ["--early-stopping", true],
  ["--early-stopping true", true],
  ["--early-stopping off", false],
])("a switch may have a word of its own: %s", ([words, value]) => {
  const { settings } = settingsOf(["--beam-width", "4", ...words.split(" ")]);
  expect(settings).toMatchObject({ beamWidth: 4, earlyStopping: value });
});

test("a bare switch does not take the model's name for its value", () => {
  const { settings, model } = settingsOf(["--ignore-eos", "models/pocket", "--seed", "3"]);
  expect(settings).toEqual({ ignoreEos: true, seed: 3, maxTokens: 128 });
  expect(model).toBe("models/pocket");
});

test("steps on a GPU have flags of their own; where its libraries are has none", () => {
  const { settings } = settingsOf(["--cuda-graphs", "off", "--overlap-steps", "off"], engineFlags);
  expect(settings).toEqual({ cuda: { graphs: false }, overlapSteps: false });
  expect(() => settingsOf(["--home", "/usr/local/cuda"], engineFlags)).toThrow("unknown option");
});

test("names of settings in help texts are flags, with the names of their groups or without", () => {
  const text = "Give kvCache.poolBytes then, not hostCacheBytes or kvTransfer.host.";
  expect(engineFlags.withFlags(text)).toBe(
    "Give --kv-pool-bytes then, not --host-cache-bytes or kvTransfer.host.",
  );
});

test("a model over several processes has flags that say so", () => {
  const words = ["--pipeline-stages", "4", "--pipeline-chunk-tokens", "1024"];
  const more = ["--pipeline-timeout-ms", "9000", "--pipeline-share-gpus"];
  const { settings } = settingsOf([...words, ...more], engineFlags);
  const numbers = { stages: 4, chunkTokens: 1024, timeoutMs: 9000 };
  expect(settings).toEqual({ pipeline: { ...numbers, shareGpus: true } });
});

test("flags of grammars say that they are about grammars", () => {
  const words = ["--grammar-cache-bytes-max", "1MiB", "--grammar-nesting-max", "8"];
  const { settings } = settingsOf(words, engineFlags);
  expect(settings).toEqual({ grammar: { cacheBytesMax: 2 ** 20, nestingMax: 8 } });
  expect(() => settingsOf(["--nesting-max", "8"], engineFlags)).toThrow("unknown option");
  expect(engineFlags.withFlags("at most 64 levels (grammar.nestingMax)")).toBe(
    "at most 64 levels (--grammar-nesting-max)",
  );
});

test.for([
  ["serve", "auto", "2000"],
  ["chat", "auto", "300"],
  ["bench", "off", "500"],
])("the help of %s tells the truth about drafts: %s", async ([name, kind, measureMs]) => {
  const root = await loadProgram(name);
  const command = root.commands.find((each) => each.name() === name);
  const own = name === "bench" ? command?.commands[0] : command;
  const help = (flag: string) =>
    own?.options.find(({ long }) => long === flag)?.description ?? "no such flag";
  expect(help("--speculative")).toContain(`(default: ${kind})`);
  expect(help("--speculative-measure-ms")).toContain(`(default: ${measureMs})`);
});

test("a setting of another part is its flag in a description, too", () => {
  const text = engineFlags.withFlags(
    "Give kvCache.poolBytes, and stepTokensMax; not some.thingElse.",
  );
  expect(text).toBe("Give --kv-pool-bytes, and --step-tokens-max; not some.thingElse.");
});

interface EnumField {
  readonly enum?: readonly string[];
  readonly anyOf?: readonly EnumField[];
  readonly properties?: Readonly<Record<string, EnumField>>;
}

/** Every word of every enum of a schema, behind its setting's path. */
function wordsOf(schema: z.ZodType): [string, string][] {
  const visit = (field: EnumField, path: readonly string[]): [string, string][] => [
    ...(field.enum ?? []).map((word): [string, string] => [path.join("."), word]),
    ...(field.anyOf ?? []).flatMap((kind) => visit(kind, path)),
    ...Object.entries(field.properties ?? {}).flatMap(([key, inner]) =>
      visit(inner, [...path, key]),
    ),
  ];
  // The cast names the part of JSON Schema that enums stand in.
  return visit(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as EnumField, []);
}

const server = new SchemaFlags(ServerOptions);
const worker = new SchemaFlags(WorkerOptions);
const renamed: Record<string, string> = {
  "kvCache.dtype": "kv-cache-dtype",
  "scheduler.policy": "scheduling-policy",
  "speculative.kind": "speculative",
};

/** What engines exchange is a worker's setting, under a flag of its own. */
const isExchange = ([path]: readonly [string, string]) => path.startsWith("kvTransfer.");

test.each([
  ...wordsOf(EngineOptions)
    .filter((choice) => !isExchange(choice))
    .map((choice) => [...choice, engineFlags] as const),
  ...wordsOf(WorkerOptions).map((choice) => [...choice, worker] as const),
  ...wordsOf(ServerOptions).map((choice) => [...choice, server] as const),
])("%s takes its word %s", (path, word, flags) => {
  const name = path.split(".").at(-1) ?? "";
  const flag = renamed[path] ?? name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const { settings } = settingsOf([`--${flag}`, word], flags);
  expect(JSON.stringify(settings)).toContain(JSON.stringify(word));
});

test("float32 and int8 contradict each other, which is said", () => {
  const words = ["--dtype", "float32", "--quantization", "int8"];
  expect(() => settingsOf(words, engineFlags)).toThrow(
    "Cannot use --dtype: must be auto or bfloat16 with quantization int8, which keeps the other " +
      "weights in bfloat16, current value is float32",
  );
});

test("none of a choice is that choice, none of anything else is no value", () => {
  expect(settingsOf(["--quantization", "none"], engineFlags).settings.quantization).toBe("none");
  expect(settingsOf(["--tool-call-parser", "none"], server).settings.toolCallParser).toBe("none");
  expect(settingsOf(["--threads", "none"], engineFlags).settings.threads).toBeNull();
  expect(settingsOf(["--isa", "none"], engineFlags).settings.isa).toBeNull();
  expect(settingsOf(["--served-model-name", "none"], server).settings.servedModelName).toEqual([
    "none",
  ]);
});

test("lists are collected, and none is null", () => {
  const words = "--stop a --stop b --stop-token-ids 1,2 --stop-token-ids 3 --max-tokens none";
  expect(settingsOf(words.split(" ")).settings).toEqual({
    stop: ["a", "b"],
    stopTokenIds: [1, 2, 3],
    maxTokens: null,
  });
});

test.for<[string, string]>([
  ["--temperature 9", "Cannot use --temperature: must be at most 2, current value is 9"],
  ["--top-p 0", "Cannot use --top-p: must be more than 0, current value is 0"],
  ["--max-tokens 1.5", "Cannot use --max-tokens: must be an integer, current value is 1.5"],
  [
    "--min-tokens 9 --max-tokens 3",
    "Cannot use --min-tokens: must be at most --max-tokens, current value is 9",
  ],
  ["--beam-width 65", "Cannot use --beam-width: must be at most 64, current value is 65"],
  ["--beam-width 2 --n 3", "Cannot use --n: must be at most --beam-width (2), current value is 3"],
  ["--length-penalty 2", "Cannot use --length-penalty: needs --beam-width, current value is 2"],
  [
    "--beam-width 2 --stop x",
    "Cannot use --stop: cannot be combined with --beam-width, leave one of them out",
  ],
  ['--structured-output {"jsn":1}', "Cannot use --structured-output: jsn is not a known field"],
])("%s is refused: %s", ([words, message]) => {
  expect(() => settingsOf(words.split(" "))).toThrow(message);
});

test.for<[string, string]>([
  ["--temperature hot", "Wanted a number."],
  ["--ignore-eos=maybe", "Wanted on or off."],
  ["--early-stopping=maybe", "Wanted on, off or never."],
  ["--structured-output {", "Wanted JSON."],
])("%s is no value: %s", ([words, message]) => {
  expect(() => settingsOf(words.split(" "))).toThrow(message);
});

test.for(["--early-stopping maybe", "--ignore-eos perhaps"])(
  "a word behind a switch that is no value and no model is refused by the switch: %s",
  (words) => {
    const [flag, value] = words.split(" ");
    expect(() => settingsOf(["--beam-width", "4", ...words.split(" ")])).toThrow(
      new RegExp(`^Cannot use ${flag}: must be on(, off)? or \\w+, current value is ${value};`),
    );
  },
);
