/** What the calling thread reads of a model: everything but weights. */
import { basename, dirname } from "node:path";
import { systemClock, systemTimer } from "#base";
import { openCheckpoint } from "#checkpoint";
import {
  type EngineInfo,
  type EngineOptions,
  type LoadPhase,
  type ModelInfo,
  warnOnce,
} from "#engine/protocol";
import type { TextLimits } from "#tokenizer";
import { defaultSamplingFrom, type SamplingDefaults } from "./generation-config.ts";
import { ModelText, type ModelTextOptions } from "./model-text.ts";

/** What the calling thread keeps of a model's files. */
export interface ModelFiles {
  readonly text: ModelText;
  readonly defaultSampling: SamplingDefaults;
}

/** The model's files, and how it was loaded. */
export interface ModelParts extends ModelFiles {
  /** Path of the model's files. */
  readonly path: string;
  /** Text of a chat template instead of the model's own. */
  readonly template: string | null;
  readonly settings: EngineOptions;
  readonly phases: readonly LoadPhase[];
  readonly onWarning: (message: string) => void;
}

/** How the files are to be read. */
interface Reading {
  readonly name: string;
  /** Text of a chat template instead of the model's own. */
  readonly template: string | null;
  readonly settings: EngineOptions;
  readonly onWarning: (message: string) => void;
}

/**
 * The text side of the model at `path`, and what its authors recommend. Throws TOKENIZER_INVALID
 * and CHECKPOINT_INVALID.
 */
export async function readFiles(
  path: string,
  { name, template, settings, onWarning }: Reading,
): Promise<ModelFiles> {
  const weights = !settings.randomWeights && settings.mock === null;
  const checkpoint = openCheckpoint(path, { weights });
  try {
    for (const warning of checkpoint.warnings) onWarning(warning);
    return {
      text: new ModelText(checkpoint.tokenizer, {
        ...{ name, template, clock: systemClock, timer: systemTimer, warn: warnOnce(onWarning) },
        ...textSettings(settings),
      }),
      defaultSampling: defaultSamplingFrom(checkpoint.generationConfig),
    };
  } finally {
    checkpoint.close();
  }
}

function textSettings(
  settings: EngineOptions,
): Pick<ModelTextOptions, keyof TextLimits | "promptBytesMax"> {
  const { textWorkers, textDeadlineMs, textQueueMax, textMemoryBytes, promptBytesMax } = settings;
  return { textWorkers, textDeadlineMs, textQueueMax, textMemoryBytes, promptBytesMax };
}

/** The last part of a path or of a hub's name; a config.json is named after its folder. */
export function nameOf(model: string): string {
  return basename(basename(model) === "config.json" ? dirname(model) : model);
}

/** Describes the loaded model to its callers. */
export function describe(name: string, engine: EngineInfo, { text }: ModelFiles): ModelInfo {
  return {
    ...engine,
    name,
    hasTokenizer: text.tokenizer !== null,
    hasChatTemplate: text.hasTemplate,
  };
}
