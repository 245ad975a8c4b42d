import { randomUUID } from "node:crypto";
import { EngineError } from "#base";
import type { Prompt } from "#engine/protocol";
import type { RequestStarter } from "./request-starter.ts";
import { collectResult } from "./stream-item.ts";

/** Logits of a prompt's tokens, [rows, vocabulary] row-major. */
export interface PromptLogits {
  readonly logits: Float32Array;
  readonly rows: number;
}

/** The logits of every prompt token. */
export async function promptLogits(starter: RequestStarter, prompt: Prompt): Promise<PromptLogits> {
  const start = await starter.check({ maxTokens: 1, temperature: 0 });
  const requestId = randomUUID();
  const active = await start(prompt, { requestId, promptLogits: true });
  const result = await collectResult(requestId, active.items);
  const logits = active.promptLogits;
  if (logits === null) throw new EngineError("ENGINE_STEP_FAILED", "Cannot read the logits");
  return { logits, rows: result.promptTokenIds.length };
}
