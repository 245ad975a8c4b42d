import { randomBytes } from "node:crypto";
import { EngineError, systemClock } from "#base";
import type { EngineRequest, ModelInfo, Prompt } from "#engine/protocol";
import { listenTo } from "./abort-listener.ts";
import { ActiveRequest } from "./active-request.ts";
import type { EngineClient } from "./engine-client.ts";
import type { ModelText } from "./model-text.ts";
import { checkPrompt, checkPromptLength, checkTokenIds } from "./request-check.ts";
import type { Wishes } from "./wishes.ts";

/** Options of one request beside its prompt and its wishes. */
export interface StartOptions {
  readonly requestId: string;
  readonly signal?: AbortSignal | undefined;
  /** Default: no bound. */
  readonly unreadTokensMax?: number;
}

type TokenLimits = Pick<ModelInfo, "vocabularySize" | "contextTokensMax">;

/** Starts requests in the engine from prompts and checked options. */
export class RequestStarter {
  readonly #client: EngineClient;
  readonly #text: ModelText;
  readonly #limits: TokenLimits;
  /** Callers' ids of requests that have not ended. */
  readonly #requestIds = new Set<string>();
  #vocabularySent = false;

  constructor(client: EngineClient, text: ModelText, limits: TokenLimits) {
    this.#client = client;
    this.#text = text;
    this.#limits = limits;
  }

  /**
   * Checks a request, submits it to the engine, and registers it. Rejects with INVALID_ARGUMENT,
   * TOKENIZER_MISSING, PROMPT_TOO_LONG, SHUTTING_DOWN, ENGINE_DEAD and the reason of its signal.
   */
  async start(
    prompt: Prompt,
    wishes: Wishes,
    { requestId, signal, unreadTokensMax = Number.POSITIVE_INFINITY }: StartOptions,
  ): Promise<ActiveRequest> {
    if (this.#requestIds.has(requestId)) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot start request: its id must not be in use, current value is ${requestId}`,
        { param: "requestId" },
      );
    }
    this.#requestIds.add(requestId);
    try {
      signal?.throwIfAborted();
      const promptTokenIds = await this.encode(prompt, signal);
      signal?.throwIfAborted();
      const { seed } = wishes.params;
      const request = {
        ...{ ...wishes, key: this.#client.takeKey(), requestId, promptTokenIds },
        seed: seed === null ? randomBytes(8).readBigUInt64LE() : BigInt(seed),
      };
      return this.#submit(request, { signal, unreadTokensMax });
    } catch (error) {
      this.#requestIds.delete(requestId);
      throw error;
    }
  }

  #submit(
    request: EngineRequest,
    { signal, unreadTokensMax }: Required<Omit<StartOptions, "requestId">>,
  ): ActiveRequest {
    const client = this.#client;
    client.checkReady();
    const onAbort = () => active.cancel(signal?.reason);
    const active = new ActiveRequest({
      request,
      tokenizer: this.#text.tokenizer,
      clock: systemClock,
      listeners: client.listeners,
      pacer: client.pacer,
      unreadTokensMax,
      abort: (index) => client.abort(request.key, index),
      setPaused: (paused) => client.setPaused(request.key, paused),
      onEnd: () => {
        signal?.removeEventListener("abort", onAbort);
        this.#requestIds.delete(request.requestId);
        client.forget(request.key);
      },
    });
    listenTo(signal, onAbort);
    if (request.params.structuredOutput !== null) this.#sendVocabulary();
    client.start(active);
    return active;
  }

  #sendVocabulary(): void {
    if (this.#vocabularySent) return;
    this.#vocabularySent = true;
    this.#client.sendVocabulary(this.#text.require("constrain the output").grammarVocabulary());
  }

  /** Throws also when the engine ended, or began to drain, while a long text was encoded. */
  async encode(prompt: Prompt, signal?: AbortSignal): Promise<readonly number[]> {
    this.#client.checkReady();
    checkPrompt(prompt);
    const { vocabularySize, contextTokensMax } = this.#limits;
    if (typeof prompt !== "string") {
      checkPromptLength(prompt.promptTokenIds.length, contextTokensMax);
    }
    // A copy: the engine gets the checked ids even if the caller changes its array.
    const ids = Array.from(await this.#text.encode(prompt, signal));
    checkTokenIds(ids, vocabularySize);
    this.#client.checkReady();
    return ids;
  }
}
