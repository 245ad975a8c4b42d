import type { Command } from "commander";
import { listCachedModels, openCheckpoint, pullModel, resolveModel } from "#checkpoint";
import { hubFromEnvironment } from "../engine-flags.ts";
import { bundledModel } from "../package-root.ts";
import { Progress } from "../progress.ts";

interface HubFlags {
  readonly revision?: string;
  readonly hubToken?: string;
  readonly cacheDir?: string;
  readonly hubUrl?: string;
  readonly file?: string;
}

const MEGABYTE = 1e6;

export function addModelsCommand(root: Command): void {
  const models = root.command("models").description("Models on this machine and on the hub.");
  models
    .command("list")
    .description("Models in the download cache, and the bundled one.")
    .option("--cache-dir <folder>", "folder of downloaded models")
    .option("--json", "print JSON")
    .action(list);
  models
    .command("inspect")
    .description("What a checkpoint holds.")
    .argument("[model]", "a directory, a file or a Hugging Face id; default: bundled model")
    .option("--cache-dir <folder>", "folder of downloaded models")
    .option("--tensors", "list every tensor")
    .option("--json", "print JSON")
    .action(inspect);
  models
    .command("pull")
    .description("Download a model from the Hugging Face hub; continues where it stopped.")
    .argument("<name>", "ORG/NAME")
    .option("--revision <name>", "branch, tag or commit")
    .option("--hub-token <text>", "access token; default: HF_TOKEN")
    .option("--cache-dir <folder>", "download cache; default: HF_HUB_CACHE or Hugging Face's own")
    .option("--hub-url <url>", "another hub; default: HF_ENDPOINT")
    .option("--file <name>", "one file of the repository, e.g. a .gguf")
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
  const rows = [{ name: "(bundled) pocket", path: bundledModel }, ...cached];
  if (flags.json === true) process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
  else for (const row of rows) process.stdout.write(`${row.name}\t${row.path}\n`);
}

async function inspect(
  model: string | undefined,
  flags: HubFlags & { json?: boolean; tensors?: boolean },
): Promise<void> {
  const path = await resolveModel(model ?? bundledModel, hubOptions(flags));
  const checkpoint = await openCheckpoint(path);
  try {
    const tensors = [...checkpoint.tensors.values()].map(({ name, dtype, shape }) => ({
      name,
      dtype,
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
    process.stdout.write(`${JSON.stringify(summary, null, 2)}\n`);
    return;
  }
  for (const [name, value] of Object.entries(summary)) {
    process.stdout.write(
      `${name.padEnd(14)} ${typeof value === "object" ? JSON.stringify(value) : value}\n`,
    );
  }
}

async function pull(name: string, flags: HubFlags): Promise<void> {
  let progress: Progress | null = null;
  const path = await pullModel({
    name,
    ...hubOptions(flags),
    ...(flags.file === undefined ? {} : { file: flags.file }),
    onProgress: ({ doneBytes, totalBytes }) => {
      progress ??= new Progress(name, Math.ceil(totalBytes / MEGABYTE), " MB");
      progress.set(Math.floor(doneBytes / MEGABYTE));
    },
  });
  (progress as Progress | null)?.stop();
  process.stdout.write(`${path}\n`);
}
