import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
} from "@ai-sdk/provider";
import type { ChatSource } from "./chat-source.ts";
import { requestOf } from "./request.ts";
import { streamParts } from "./stream-parts.ts";

/** A language model of the SDK over what answers. */
export class PerigeeLanguageModel implements LanguageModelV4 {
  readonly specificationVersion = "v4";
  readonly provider = "perigee";
  readonly modelId: string;
  /** Models read texts only. */
  readonly supportedUrls: Record<string, RegExp[]> = {};
  readonly #source: ChatSource;

  constructor(modelId: string, source: ChatSource) {
    this.modelId = modelId;
    this.#source = source;
  }

  /** The whole answer. */
  async doGenerate(call: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
    const { request, warnings } = requestOf(call);
    const content: LanguageModelV4Content[] = [];
    for await (const part of streamParts(this.#source.chat(request))) {
      if (part.type === "text-start") content.push({ type: "text", text: "" });
      else if (part.type === "reasoning-start") content.push({ type: "reasoning", text: "" });
      else if (part.type === "text-delta" || part.type === "reasoning-delta") {
        const last = content.at(-1);
        if (last?.type === "text" || last?.type === "reasoning") last.text += part.delta;
      } else if (part.type === "tool-call") content.push(part);
      else if (part.type === "finish") {
        const { finishReason, usage } = part;
        const response = { timestamp: new Date(), modelId: this.modelId };
        return { content, finishReason, usage, warnings, response };
      }
    }
    throw new Error("An answer must end with its finish reason");
  }

  /** The answer as it comes. Cancelling the stream cancels the request. */
  async doStream(call: LanguageModelV4CallOptions): Promise<LanguageModelV4StreamResult> {
    const { request, warnings } = requestOf(call);
    const parts = streamParts(this.#source.chat(request));
    // A request that is refused rejects here, where the SDK retries it.
    const first = await parts.next();
    const { modelId } = this;
    let isOpened = false;
    const stream = new ReadableStream<LanguageModelV4StreamPart>({
      async pull(controller) {
        if (!isOpened) {
          isOpened = true;
          controller.enqueue({ type: "stream-start", warnings });
          controller.enqueue({ type: "response-metadata", timestamp: new Date(), modelId });
          if (first.done !== true) controller.enqueue(first.value);
          return;
        }
        try {
          const { done, value } = await parts.next();
          if (done === true) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          controller.enqueue({ type: "error", error });
          controller.close();
        }
      },
      async cancel() {
        await parts.return(undefined);
      },
    });
    return { stream };
  }
}
