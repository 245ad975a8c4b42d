/** One response from its beginning to its end: its output, its state, and the events of both. */
import type { ErrorBody } from "../../http-errors.ts";
import type { UsageCounter } from "../usage.ts";
import { EventLog } from "./event-log.ts";
import { OutputWriter } from "./output-writer.ts";
import { type ResponseFacts, type ResponseState, responseBody } from "./response-body.ts";

export class ResponseWriter {
  readonly output: OutputWriter;
  /** Tokens of the model's reasoning. */
  reasoningTokens = 0;
  readonly #log: EventLog;
  readonly #facts: ResponseFacts;
  readonly #usage: UsageCounter;
  #begun = false;

  /** `usage` is read when the response ends. */
  constructor(facts: ResponseFacts, usage: UsageCounter) {
    this.#facts = facts;
    this.#usage = usage;
    this.#log = new EventLog(facts.request.stream === true);
    this.output = new OutputWriter(facts.id, this.#log);
  }

  /** Tells, once, that work has begun: before anything of the output. */
  begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    for (const type of ["response.created", "response.in_progress"]) {
      this.#log.emit(type, { response: this.#body("in_progress") });
    }
  }

  /** Ends the output; the whole response. `isCut`: it has reached its longest length. */
  finish(isCut: boolean, completed: number): object {
    this.begin();
    this.output.fill();
    this.output.close(isCut ? "incomplete" : "completed");
    return this.#body(isCut ? "incomplete" : "completed", { completed });
  }

  /** Tells of the end, when it is kept where it is to be kept. */
  conclude(response: object): void {
    const { status } = response as { status: string };
    this.#log.emit(`response.${status}`, { response });
  }

  /** Events that tell of a failure, for a stream that has begun. */
  failed({ error }: ErrorBody): string {
    this.begin();
    this.#log.emit("response.failed", { response: this.#body("failed", { error }) });
    return this.take();
  }

  /** Events that have not been sent. */
  take(): string {
    return this.#log.take();
  }

  #body(
    status: ResponseState["status"],
    more: Partial<Pick<ResponseState, "error" | "completed">> = {},
  ): object {
    const { reasoningTokens, output } = this;
    const isOver = status !== "in_progress";
    return responseBody(this.#facts, {
      ...{ status, output: output.items, reasoningTokens },
      usage: isOver ? this.#usage.usage() : null,
      ...{ error: null, completed: null, ...more },
    });
  }
}
