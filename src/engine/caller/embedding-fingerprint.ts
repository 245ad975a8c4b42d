import { createHash } from "node:crypto";
import { openCheckpoint, weightsIdentity } from "#checkpoint";
import type { EngineOptions, ModelInfo } from "#engine/protocol";

const DIGITS = 32;

/**
 * 32 hexadecimal digits, equal for models whose vectors can be compared: of weights, configuration,
 * tokenizer, pooling, prompts and the longest text. The device and the number format do not count,
 * nor do times of files: copies of a model have one fingerprint. Reads up to 8 MiB of each file.
 */
export async function embeddingFingerprint(
  path: string,
  { embedding }: ModelInfo,
  { randomWeights, mock }: Pick<EngineOptions, "randomWeights" | "mock">,
): Promise<string> {
  const checkpoint = openCheckpoint(path, { weights: false });
  try {
    const files = await weightsIdentity(path, { fileTimes: false, tokenizer: true });
    const lowered = checkpoint.sentence?.text?.do_lower_case === true;
    const isReal = !randomWeights && mock === null;
    const all = [checkpoint.config, files, lowered, isReal, embedding];
    return createHash("sha256").update(JSON.stringify(all)).digest("hex").slice(0, DIGITS);
  } finally {
    checkpoint.close();
  }
}
