import type { ServedModel } from "#engine";
import {
  checkedRewrite,
  leansOnEarlier,
  REWRITE_RULES,
  rewriteRequest,
  standaloneByRules,
  type Turn,
} from "./follow-up.ts";
import { isSmall } from "./prompt-text.ts";

const TOKENS_MAX = 96;
/** Turns before a question that may matter to it. */
const TURNS_MAX = 6;

/** How a question is made to stand alone. */
export interface RewriteOptions {
  readonly cacheSalt: string | null;
  readonly signal?: AbortSignal;
}

/**
 * The question as it is searched for and answered: by the model where it can rewrite, else by
 * rules. The same text where there was no conversation.
 */
export async function standaloneQuestion(
  llm: ServedModel | null,
  question: string,
  turns: readonly Turn[],
  options: RewriteOptions,
): Promise<string> {
  const recent = turns.slice(-TURNS_MAX);
  if (recent.length === 0) return question.trim();
  const canRewrite = llm !== null && !isSmall(llm.info) && llm.info.hasChatTemplate;
  const written = canRewrite ? await rewritten(llm, question, recent, options) : null;
  if (written !== null) return written;
  return leansOnEarlier(question) ? standaloneByRules(question, recent) : question.trim();
}

async function rewritten(
  llm: ServedModel,
  question: string,
  turns: readonly Turn[],
  { cacheSalt, signal }: RewriteOptions,
): Promise<string | null> {
  const messages = [
    { role: "system", content: REWRITE_RULES },
    { role: "user", content: rewriteRequest(question, turns) },
  ];
  const common = { ...(cacheSalt !== null && { cacheSalt }), ...(signal && { signal }) };
  const prompt = await llm.chatPrompt(messages, common);
  const room = llm.info.contextTokensMax - prompt.promptTokenIds.length;
  if (room < TOKENS_MAX) return null;
  const sampling = { temperature: 0, maxTokens: TOKENS_MAX };
  const [result] = await llm.generate(prompt, { ...sampling, ...common });
  return checkedRewrite(result?.completions[0]?.text ?? "", question, turns);
}
