import type { Architecture } from "../architecture.ts";
import { invalidConfig, parseConfig, RobertaConfig } from "../config.ts";
import { bertNames, bertSpec } from "./bert.ts";
import { linearNames } from "./llama-like.ts";

/**
 * RoBERTa and XLM-RoBERTa (BGE-M3, multilingual E5, BGE's rerankers): BERT whose positions begin
 * behind the padding's id.
 */
export const roberta: Architecture = {
  modelTypes: ["roberta", "xlm-roberta", "camembert"],
  describe(json) {
    const config = parseConfig(RobertaConfig, json);
    const { max_position_embeddings: rows, pad_token_id: paddingId } = config;
    const contextTokensMax = rows - paddingId - 1;
    if (contextTokensMax < 1) {
      throw invalidConfig("max_position_embeddings", `more than ${paddingId + 1} positions`, rows);
    }
    const spec = bertSpec(config, {
      architecture: config.model_type,
      positions: { kind: "learned", rows, paddingId },
      contextTokensMax,
    });
    const head = {
      dense: linearNames(["classifier.dense"], true),
      output: linearNames(["classifier.out_proj"], true),
    };
    return { kind: "encoder", spec, names: bertNames("roberta.", head) };
  },
};
