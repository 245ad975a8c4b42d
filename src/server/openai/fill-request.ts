import { z } from "zod";
import { isTokenIds } from "./fields.ts";

const HOST_LENGTH_MAX = 253;
const PORT_MAX = 65_535;
const SALT_LENGTH_MAX = 4096;
const DEADLINE_MS_MAX = 600_000;

/** The body of `POST /kv_fill`. */
export const FillRequest = z.strictObject({
  prompt_token_ids: z.custom<number[]>(isTokenIds, "must be a list of token ids"),
  cache_salt: z.string().max(SALT_LENGTH_MAX).nullish(),
  /** Leading tokens that requests asked for more than once. */
  reused_tokens: z.int().min(0).nullish(),
  /** Who has them: where it is asked for keys and values. */
  source: z.strictObject({
    host: z.string().min(1).max(HOST_LENGTH_MAX),
    port: z.int().min(1).max(PORT_MAX),
  }),
  deadline_ms: z.int().min(1).max(DEADLINE_MS_MAX).nullish(),
});
