import { randomBytes, randomUUID } from "node:crypto";
import { EngineError, requireOptions, systemClock } from "#base";
import type { EngineRequest, GenerateOptions, Prompt } from "#engine/protocol";
import type { SamplingParams } from "#sampling";
import { listenTo } from "./abort-listener.ts";
import { ActiveRequest } from "./active-request.ts";
import type { EngineClient } from "./engine-client.ts";
import { checkedGenerated, checkedSeed } from "./generated-check.ts";
import { checkedTokenIds, checkPrompt, checkPromptLength } from "./request-check.ts";
import { checkOptions, type OptionScope } from "./request-options.ts";

/** How one prompt is started. */
export interface StartOptions {
  readonly requestId: string;
  readonly signal?: AbortSignal | undefined;
  /** Default: no bound. */
  readonly unreadTokensMax?: number;
  /** Return the logits of every prompt token. */
  readonly promptLogits?: boolean;
  /** Items tell what the request occupies. */
  readonly tellsHeld?: boolean;
}

/**
 * Submits a prompt to the engine, with options that were checked. Rejects with INVALID_ARGUMENT,
 * TOKENIZER_MISSING, PROMPT_TOO_LONG, SHUTTING_DOWN, ENGINE_DEAD and the reason of its signal.
 */
export type StartPrompt = (prompt: Prompt, options: StartOptions) => Promise<ActiveRequest>;

/** Limits of options and prompts. */
type StartScope = OptionScope;

/** Starts requests in the engine from prompts and options, both of which it checks. */
export class RequestStarter {
  readonly #client: EngineClient;
  readonly #scope: StartScope;
  /** Callers' ids of requests that have not ended. */
  readonly #requestIds = new Set<string>();
  #vocabularySent = false;

  constructor(client: EngineClient, scope: StartScope) {
    this.#client = client;
    this.#scope = scope;
  }

  /** Checks the options of a call, for any number of prompts. Rejects with INVALID_ARGUMENT. */
  async check(options: GenerateOptions): Promise<StartPrompt> {
    requireOptions(options);
    const shared = await checkOptions(options, this.#scope);
    const { seed } = shared.params;
    const tellsHeld = options.returnKvByteSeconds === true;
    return (prompt, start) =>
      this.#start(
        prompt,
        { ...start, tellsHeld, cacheSalt: shared.cacheSalt },
        (promptTokenIds) => ({
          ...shared,
          key: this.#client.takeKey(),
          requestId: start.requestId,
          promptTokenIds,
          ...this.#generatedOf(prompt, shared.params),
          seed: seed === null ? ownSeed(prompt) : BigInt(seed),
          promptLogits: start.promptLogits ?? false,
        }),
      );
  }

  /** What a prompt has of another engine. */
  #generatedOf(prompt: Prompt, params: SamplingParams): Pick<EngineRequest, "generated"> {
    if (typeof prompt === "string") return {};
    const { vocabularySize, contextTokensMax } = this.#scope;
    const scope = { params, vocabularySize, contextTokensMax };
    const generated = checkedGenerated(prompt, scope);
    return generated === null ? {} : { generated };
  }

  /** Encodes a prompt, registers its request and submits it. */
  async #start(
    prompt: Prompt,
    options: StartOptions & Pick<EngineRequest, "cacheSalt">,
    toRequest: (promptTokenIds: Int32Array<ArrayBuffer>) => EngineRequest,
  ): Promise<ActiveRequest> {
    const { requestId, signal, cacheSalt } = options;
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
      const promptTokenIds = await this.encode(prompt, signal, cacheSalt);
      signal?.throwIfAborted();
      return this.#submit(toRequest(promptTokenIds), options);
    } catch (error) {
      this.#requestIds.delete(requestId);
      throw error;
    }
  }

  #submit(request: EngineRequest, options: StartOptions): ActiveRequest {
    const { signal, unreadTokensMax = Number.POSITIVE_INFINITY } = options;
    const client = this.#client;
    client.checkReady();
    const onAbort = () => active.cancel(signal?.reason);
    const { key, requestId, params, generated } = request;
    const active = new ActiveRequest({
      // The request is posted, with its ids: the caller needs ids of its own.
      request: {
        ...{ key, requestId, params, promptTokenIds: request.promptTokenIds.slice() },
        ...(generated !== undefined && { generated }),
      },
      tokenizer: this.#scope.text.tokenizer,
      bytesPerBlock: this.#scope.bytesPerBlock,
      tellsHeld: options.tellsHeld ?? false,
      clock: systemClock,
      listeners: client.listeners,
      pacer: client.pacer,
      unreadTokensMax,
      abort: (index) => client.abort(key, index),
      setPaused: (paused) => client.setPaused(key, paused),
      onEnd: () => {
        signal?.removeEventListener("abort", onAbort);
        this.#requestIds.delete(requestId);
        client.forget(key);
      },
    });
    listenTo(signal, onAbort);
    if (params.structuredOutput !== null) this.#sendVocabulary();
    client.start(active, request);
    return active;
  }

  #sendVocabulary(): void {
    if (this.#vocabularySent) return;
    this.#vocabularySent = true;
    const tokenizer = this.#scope.text.require("constrain the output");
    this.#client.sendVocabulary(tokenizer.grammarVocabulary());
  }

  /**
   * A prompt's checked ids, in an array of their own. Throws also when the engine ended, or began
   * to drain, while a long text was encoded.
   */
  async encode(
    prompt: Prompt,
    signal?: AbortSignal,
    cacheSalt: string | null = null,
  ): Promise<Int32Array<ArrayBuffer>> {
    this.#client.checkReady();
    checkPrompt(prompt);
    const { vocabularySize, contextTokensMax, text } = this.#scope;
    if (typeof prompt !== "string") {
      const { promptTokenIds: given } = prompt;
      checkPromptLength(given.length, contextTokensMax);
      return checkedTokenIds(given, vocabularySize);
    }
    const ids = checkedTokenIds(await text.encode(prompt, signal, cacheSalt), vocabularySize);
    this.#client.checkReady();
    return ids;
  }
}

/** The seed of a prompt where its options have none. */
function ownSeed(prompt: Prompt): bigint {
  const given = typeof prompt === "string" ? null : checkedSeed(prompt);
  return given === null ? randomBytes(8).readBigUInt64LE() : BigInt(given);
}

/** The id of one of a call's prompts. Default: a fresh one. */
export function requestName(given: string | undefined, place: number, count: number): string {
  if (given === undefined) return randomUUID();
  return count === 1 ? given : `${given}-${place}`;
}
