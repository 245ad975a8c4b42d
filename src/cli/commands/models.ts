import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { EngineError } from "#base";
import {
  linkModel,
  listCachedModels,
  longName,
  openCheckpoint,
  pullModel,
  resolveModel,
  shortNames,
} from "#checkpoint";
import { DownloadBar } from "../download-bar.ts";
import { hubFromEnvironment } from "../hub-environment.ts";
import { bundledModel } from "../package-root.ts";
import { isHubOffline, presentModel } from "../present-model.ts";
import { plainText } from "../terminal-text.ts";

interface HubFlags {
  readonly revision?: string;
  readonly hubToken?: string;
  readonly cacheDir?: string;
  readonly hubUrl?: string;
  readonly file?: string;
  readonly offline?: boolean;
}

const CACHE_HELP = "Folder of downloaded models. (default: HF_HUB_CACHE, else Hugging Face's own)";

/** `perigee models`. */
export function defineModels(models: Command): void {
  models
    .command("list")
    .description("List the bundled model and those in the download cache.")
    .option("--cache-dir <folder>", CACHE_HELP)
    .option("--json", "Print JSON.")
    .action(list);
  models
    .command("inspect")
    .description("Show what a checkpoint holds, without reading its weights.")
    .argument("[model]", "A directory, a file or a Hugging Face id. (default: the bundled model)")
    .option("--cache-dir <folder>", CACHE_HELP)
    .option("--tensors", "List every tensor.")
    .option("--json", "Print JSON.")
    .action(inspect);
  models
    .command("link")
    .description(
      "Give a model's folder a name in the download cache, where other tools look up tokenizers.",
    )
    .argument("<name>", "NAME or ORG/NAME, as the server calls the model")
    .argument("[folder]", "A model's folder. (default: the bundled model)")
    .option("--cache-dir <folder>", CACHE_HELP)
    .action(link);
  models
    .command("names")
    .description("List the short names that stand for models of the hub.")
    .option("--json", "Print JSON.")
    .action((flags: { json?: boolean }) => {
      const names = shortNames();
      if (flags.json === true) say(JSON.stringify(Object.fromEntries(names), null, 2));
      else for (const [short, name] of names) say(`${short}\t${name}`);
    });
  models
    .command("pull")
    .description("Download a model from the Hugging Face hub; resumes an interrupted download.")
    .argument("<name>", "ORG/NAME, or a short name such as qwen2.5:0.5b: see perigee models names")
    .option("--revision <name>", "Branch, tag or commit. (default: main)")
    .option("--hub-token <text>", "Access token. (default: HF_TOKEN)")
    .option("--cache-dir <folder>", CACHE_HELP)
    .option(
      "--hub-url <url>",
      "Address of the hub. (default: HF_ENDPOINT, else https://huggingface.co)",
    )
    .option("--file <name>", "One file of the repository, e.g. a .gguf.")
    .option(
      "--offline",
      "Download nothing: print where the model is on this machine, or fail where it is not. " +
        "HF_HUB_OFFLINE=1 does the same.",
    )
    .action(pull);
}

function hubOptions(flags: HubFlags) {
  const environment = hubFromEnvironment();
  const token = flags.hubToken ?? environment.token;
  const cacheDir = flags.cacheDir ?? environment.cacheDir;
  const hubUrl = flags.hubUrl ?? environment.url;
  return {
    ...(flags.revision === undefined ? {} : { revision: flags.revision }),
    ...(token === undefined ? {} : { token }),
    ...(cacheDir === undefined ? {} : { cacheDir }),
    ...(hubUrl === undefined ? {} : { hubUrl }),
  };
}

async function list(flags: HubFlags & { json?: boolean }): Promise<void> {
  const cached = await listCachedModels(hubOptions(flags).cacheDir);
  const bundled = existsSync(bundledModel)
    ? [{ name: "(bundled) pocket", path: bundledModel }]
    : [];
  const rows = [...bundled, ...cached];
  if (flags.json === true) say(JSON.stringify(rows, null, 2));
  else for (const row of rows) say(`${row.name}\t${row.path}`);
}

async function inspect(
  model: string | undefined,
  flags: HubFlags & { json?: boolean; tensors?: boolean },
): Promise<void> {
  const path = await resolveModel(model ?? bundledModel, hubOptions(flags));
  const checkpoint = openCheckpoint(path);
  try {
    const tensors = [...checkpoint.tensors.values()].map(({ name, dtype, storedAs, shape }) => ({
      name,
      dtype: storedAs ?? dtype,
      shape,
    }));
    const count = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
    const summary = {
      path: checkpoint.path,
      modelType: checkpoint.config.model_type,
      parameters: tensors.reduce((sum, tensor) => sum + count(tensor.shape), 0),
      bytes: checkpoint.totalBytes,
      tensors: tensors.length,
      dtypes: [...new Set(tensors.map((tensor) => tensor.dtype))],
      tokenizer: checkpoint.tokenizer !== null,
      chatTemplate: checkpoint.tokenizer?.chatTemplate != null,
      config: checkpoint.config,
    };
    print(
      flags.tensors === true ? { ...summary, tensorList: tensors } : summary,
      flags.json === true,
    );
  } finally {
    checkpoint.close();
  }
}

function print(summary: Readonly<Record<string, unknown>>, json: boolean): void {
  if (json) {
    say(JSON.stringify(summary, null, 2));
    return;
  }
  for (const [name, value] of Object.entries(summary)) {
    say(`${name.padEnd(14)} ${shown(value)}`);
  }
}

/** Prints a line, which may contain untrusted names. In JSON, JSON's own escapes suffice. */
function say(line: string): void {
  process.stdout.write(`${plainText(line)}\n`);
}

/** Plain values of a list on one line, objects of a list one per line, an object on many lines. */
function shown(value: unknown): string {
  if (!Array.isArray(value)) {
    return typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);
  }
  if (value.some((item) => typeof item === "object")) {
    return value.map((item) => `\n  ${JSON.stringify(item)}`).join("");
  }
  return value.join(", ");
}

async function link(name: string, folder: string | undefined, flags: HubFlags): Promise<void> {
  const { cacheDir } = hubOptions(flags);
  say(
    await linkModel({
      ...{ name, folder: folder ?? bundledModel },
      ...(cacheDir === undefined ? {} : { cacheDir }),
    }),
  );
}

/** What `pull` would print, of a model that is here. Throws MODEL_NOT_FOUND where it is not. */
async function presentFile(name: string, flags: HubFlags): Promise<string> {
  const { revision, cacheDir } = hubOptions(flags);
  await presentModel(name, {
    ...(revision === undefined ? {} : { revision }),
    ...(cacheDir === undefined ? {} : { cacheDir }),
    ...{ offline: true, say },
  });
  const folder = await resolveModel(name, hubOptions(flags));
  if (flags.file === undefined) return folder;
  const file = join(folder, flags.file);
  if (existsSync(file)) return file;
  throw new EngineError(
    "MODEL_NOT_FOUND",
    `Cannot find file: ${flags.file} of ${name} must be on this machine, it is not; ` +
      `--offline downloads nothing; where there is a network: perigee models pull ${name} ` +
      `--file ${flags.file}`,
    { param: "file" },
  );
}

async function pull(model: string, flags: HubFlags): Promise<void> {
  const name = longName(model) ?? model;
  if (flags.offline === true || isHubOffline(process.env)) {
    say(await presentFile(name, flags));
    return;
  }
  const bar = new DownloadBar(name);
  try {
    const path = await pullModel({
      name,
      ...hubOptions(flags),
      ...(flags.file === undefined ? {} : { file: flags.file }),
      onProgress: (progress) => bar.show(progress),
    });
    say(path);
  } finally {
    await bar.stop();
  }
}
