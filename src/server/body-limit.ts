import type { ServerContext } from "./context.ts";

const BODY_BYTES_MIN = 4 * 2 ** 20;

/** Maximum bytes of a body, sized for the longest prompts: token ids, or text with escapes. */
export function bodyBytesMax({ config, model }: Pick<ServerContext, "config" | "model">): number {
  return config.requestBytesMax ?? Math.max(BODY_BYTES_MIN, 16 * model.info.contextTokensMax);
}
