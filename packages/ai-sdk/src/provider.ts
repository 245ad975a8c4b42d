import { InvalidArgumentError, NoSuchModelError, type ProviderV4 } from "@ai-sdk/provider";
import { byUrl, type ServerSettings } from "./by-url.ts";
import type { ChatSource, PerigeeModel } from "./chat-source.ts";
import { PerigeeEmbeddingModel } from "./embedding-model.ts";
import { inProcess } from "./in-process.ts";
import { PerigeeLanguageModel } from "./language-model.ts";

/** A loaded model, or a server's address. */
export type PerigeeSettings = { readonly llm: PerigeeModel } | ServerSettings;

/** A provider of the SDK, which is also a function that makes a language model. */
export interface PerigeeProvider extends ProviderV4 {
  /** A language model; in process the name may be left out. */
  (modelId?: string): PerigeeLanguageModel;
  languageModel(modelId?: string): PerigeeLanguageModel;
  embeddingModel(modelId?: string): PerigeeEmbeddingModel;
}

/**
 * A provider over a model of this process (`{ llm }`), or over a server (`{ baseURL }`). In process
 * there is one model, by its own name: others throw NoSuchModelError.
 */
export function createPerigee(settings: PerigeeSettings): PerigeeProvider {
  const own = "llm" in settings ? settings.llm : null;
  const model = own === null ? null : { name: own.info.name, source: inProcess(own) };
  const opened = (
    modelId: string | undefined,
    modelType: "languageModel" | "embeddingModel",
  ): [string, ChatSource] => {
    if (model === null) {
      if (modelId === undefined) throw missingName();
      // Without a model of this process the settings are a server's.
      return [modelId, byUrl(settings as ServerSettings, modelId)];
    }
    if (modelId === undefined || modelId === model.name) return [model.name, model.source];
    const message = `This process has the model ${model.name}, not ${modelId}`;
    throw new NoSuchModelError({ modelId, modelType, message });
  };
  const languageModel = (modelId?: string) =>
    new PerigeeLanguageModel(...opened(modelId, "languageModel"));
  const embeddingModel = (modelId?: string) =>
    new PerigeeEmbeddingModel(...opened(modelId, "embeddingModel"));
  const imageModel = (modelId: string): never => {
    throw new NoSuchModelError({ modelId, modelType: "imageModel" });
  };
  const members = {
    specificationVersion: "v4" as const,
    languageModel,
    embeddingModel,
    imageModel,
  };
  return Object.assign((modelId?: string) => languageModel(modelId), members);
}

function missingName(): InvalidArgumentError {
  const message = "Cannot choose a model: by URL it must have a name, as GET /v1/models lists it";
  return new InvalidArgumentError({ argument: "modelId", message });
}
