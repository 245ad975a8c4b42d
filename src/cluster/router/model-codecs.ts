/** Tokenizers of the models that workers serve, where the router can read them. */
import { basename } from "node:path";
import { EngineError, isPlainObject, messageOf } from "#base";
import type { WorkerInfo } from "#cluster/protocol";
import { bundledModel, TextModel } from "#engine";
import { chatPromptTokens, completionPromptTokens, type PromptSource } from "#server";
import { askWorker } from "./ask-worker.ts";
import type { WorkerLink } from "./worker-link.ts";

const PROBE_MS = 10_000;

/** What a worker and the router must read alike. */
const PROBES = [
  { prompt: "The river 日本 été\n\n  12,345 <|x|> end. " },
  {
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello, 世界!" },
      { role: "assistant", content: "Hi." },
      { role: "user", content: "Why?" },
    ],
  },
] as const;

export interface ModelCodecsOptions {
  /** FOLDER or NAME=FOLDER. */
  readonly models: readonly string[];
  readonly say: (message: string) => void;
}

/** A model's text side, and the workers that read texts as it does. */
interface KnownModel {
  readonly text: Promise<TextModel | null>;
  readonly agreeing: Set<string>;
  ready: TextModel | null;
}

/** Throws MODEL_NOT_FOUND for a model of `--model` that is not on this machine. */
export async function checkModels(models: readonly string[]): Promise<void> {
  for (const [, folder] of models.map(namedFolder)) await TextModel.check(folder);
}

function namedFolder(model: string): readonly [name: string, folder: string] {
  const [, name, folder] = /^([^=]+)=(.+)$/.exec(model) ?? [];
  return name === undefined || folder === undefined ? [basename(model), model] : [name, folder];
}

export class ModelCodecs {
  readonly #say: (message: string) => void;
  readonly #folders = new Map<string, string>();
  readonly #models = new Map<string, KnownModel>();

  constructor({ models, say }: ModelCodecsOptions) {
    this.#say = say;
    this.#folders.set(basename(bundledModel), bundledModel);
    for (const [name, folder] of models.map(namedFolder)) this.#folders.set(name, folder);
  }

  /** The text side of a model that some worker agrees with; null: none. */
  sourceOf(model: string): PromptSource | null {
    const known = this.#models.get(model);
    return known !== undefined && known.agreeing.size > 0 ? known.ready : null;
  }

  /** Whether the router has a tokenizer for one of the worker's models. */
  knows({ models }: WorkerInfo): boolean {
    return models.some((model) => this.#folders.has(model));
  }

  /** Whether the worker may be sent ids instead of texts. */
  agrees({ id, epoch, models }: WorkerInfo): boolean {
    const known = this.#models.get(models[0] ?? "");
    return known?.agreeing.has(`${id} ${epoch}`) ?? false;
  }

  /** Compares the router's ids with the worker's. Never rejects. */
  async check(link: WorkerLink): Promise<void> {
    const { id, epoch, models } = link.info;
    for (const name of models) {
      const folder = this.#folders.get(name);
      if (folder === undefined) continue;
      const known = this.#open(name, folder);
      const text = await known.text;
      if (text === null) continue;
      try {
        const problem = await differenceOf(text, link, name);
        if (problem === null) known.agreeing.add(`${id} ${epoch}`);
        else this.#say(`worker ${id} gets texts instead of ids: ${problem}`);
      } catch (error) {
        this.#say(`worker ${id} gets texts instead of ids: ${messageOf(error)}`);
      }
    }
  }

  left(workerId: string): void {
    for (const { agreeing } of this.#models.values()) {
      for (const key of agreeing) if (key.startsWith(`${workerId} `)) agreeing.delete(key);
    }
  }

  async close(): Promise<void> {
    const models = [...this.#models.values()];
    this.#models.clear();
    await Promise.all(models.map(async ({ text }) => (await text)?.close()));
  }

  #open(name: string, folder: string): KnownModel {
    const found = this.#models.get(name);
    if (found !== undefined) return found;
    const text = TextModel.open(folder, { onWarning: this.#say }).then(
      (opened) => {
        known.ready = opened;
        return opened;
      },
      (error: unknown) => {
        this.#say(`prompts of ${name} are encoded by its workers: ${messageOf(error)}`);
        return null;
      },
    );
    const known: KnownModel = { text, agreeing: new Set(), ready: null };
    this.#models.set(name, known);
    return known;
  }
}

/** Null: both make the same ids of the probes. */
async function differenceOf(
  text: TextModel,
  link: WorkerLink,
  model: string,
): Promise<string | null> {
  for (const probe of PROBES) {
    const body = JSON.stringify({ model, ...probe });
    const { status, text: answer } = await askWorker(link, {
      ...{ method: "POST", path: "/tokenize", body, timeoutMs: PROBE_MS },
    });
    const own = await ownTokens(text, probe);
    // Without a chat template neither can read a chat.
    if (own === null && status === 400) continue;
    if (status !== 200) return `POST /tokenize answers ${status}`;
    const theirs: unknown = JSON.parse(answer);
    const tokens = isPlainObject(theirs) ? theirs.tokens : null;
    if (JSON.stringify(tokens) !== JSON.stringify(own)) return "its tokenizer makes other ids";
  }
  return null;
}

/** Null: the router has no way to read the probe. */
async function ownTokens(
  text: TextModel,
  probe: (typeof PROBES)[number],
): Promise<readonly number[] | null> {
  const signal = AbortSignal.timeout(PROBE_MS);
  try {
    if ("messages" in probe) return await chatPromptTokens(text, probe, signal);
    return (await completionPromptTokens(text, probe, signal))[0] ?? null;
  } catch (error) {
    if (error instanceof EngineError) return null;
    throw error;
  }
}
