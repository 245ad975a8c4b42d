import { assert, type EngineError, messageOf } from "#base";
import {
  MovesFailed,
  movesOnly,
  type PromptPart,
  type StartedCommand,
  type StepCommand,
} from "#engine/loop";
import {
  type HiddenPlace,
  type StageOffer,
  type StageTimes,
  stepFailure,
  toWire,
} from "#engine/protocol";
import { Deferred } from "./deferred.ts";
import type { FrameChannel } from "./frame-channel.ts";
import type { FromStage, OfferShape, StageFacts, StagePlan, ToStage } from "./stage-messages.ts";

/** Computes the steps of a stage, and of all behind it. */
export interface StageExecutor {
  /** As `StepExecutor.start`; the hidden states of the stage before are there. Null: of none. */
  start(
    command: StepCommand,
    onPart: (part: PromptPart) => void,
    hidden: HiddenPlace | null,
  ): Promise<StartedCommand>;
}

/** A stage that was loaded. */
export interface LoadedStage {
  readonly executor: StageExecutor;
  /** Where the time of its steps went, and of those of all stages behind. */
  times(): readonly StageTimes[];
  /** Waits, while messages are taken in, until the device has computed all that was started. */
  settled(): Promise<void>;
  /** Offers a transfer's pieces here and at the stages behind. */
  offer(shape: OfferShape): Promise<readonly StageOffer[]>;
  endOffer(transfer: number, reason: string): void;
  close(): Promise<void>;
}

/** The parts of loading, in order. Each settles with what there is then. */
export interface StageLoader {
  weights(plan: StagePlan): Promise<StageFacts>;
  steps(contextTokensMax: number): Promise<StageFacts>;
  pool(sizes: { readonly blocks: number; readonly hostBlocks: number }): Promise<{
    readonly facts: StageFacts;
    readonly stage: LoadedStage;
  }>;
  /** Ends what was loaded. */
  close(): Promise<void>;
}

/** Answers the stage before: loads, then carries out its steps one after the other. */
export class StageServer {
  readonly #channel: FrameChannel<ToStage, FromStage>;
  readonly #loader: StageLoader;
  /** Settles when the process may end. */
  readonly ended: Promise<string>;
  #loaded: LoadedStage | null = null;
  /** Settles when all messages so far were carried out, as far as steps start. */
  #last: Promise<void> = Promise.resolve();
  /** Of steps that came: whether their hidden states are there. */
  readonly #handed = new Map<number, Deferred<boolean>>();
  /** Steps that wait for edits, and the rows of each. */
  readonly #started = new Map<number, StartedCommand>();
  readonly #rows = new Map<number, number>();
  #markEnded!: (reason: string) => void;

  constructor(channel: FrameChannel<ToStage, FromStage>, loader: StageLoader) {
    this.#channel = channel;
    this.#loader = loader;
    this.ended = new Promise((resolve) => {
      this.#markEnded = resolve;
    });
    channel.listen({
      onMessage: (message) => {
        // Overtakes the steps that wait: they wait for this.
        if (message.type === "handed") {
          this.#handed.get(message.step)?.resolve(message.ok);
          return;
        }
        if (message.type === "step") this.#handed.set(message.step, new Deferred());
        this.#last = this.#last
          .then(() => this.#carryOut(message))
          .catch((error: unknown) => this.#break(error));
      },
      onEnd: (reason) => this.#markEnded(reason),
    });
  }

  /** A stage behind this one is gone, or blocks could not be moved: no step may follow. */
  broken(error: EngineError): void {
    this.#break(error);
  }

  /** Frees what was loaded. */
  async close(): Promise<void> {
    await this.#loaded?.close();
    await this.#loader.close();
  }

  async #carryOut(message: Exclude<ToStage, { readonly type: "handed" }>): Promise<void> {
    switch (message.type) {
      case "load":
        return await this.#load(() => this.#loader.weights(message.plan));
      case "steps":
        return await this.#load(() => this.#loader.steps(message.contextTokensMax));
      case "pool":
        return await this.#load(async () => {
          const { facts, stage } = await this.#loader.pool(message);
          this.#loaded = stage;
          return facts;
        });
      case "step":
        return await this.#start(message);
      case "edits": {
        const started = this.#started.get(message.step);
        // Of a step that failed: nothing is edited.
        if (started === undefined) return;
        await started
          .edit(message.edits)
          .catch((error: unknown) => this.#failStep(message.step, error));
        if (message.edits.first + message.edits.count === this.#rows.get(message.step)) {
          this.#finish(message.step, started);
        }
        return;
      }
      case "offer":
        return this.#offer(message);
      case "endOffer":
        this.#stage.endOffer(message.transfer, message.reason);
    }
  }

  get #stage(): LoadedStage {
    assert(this.#loaded !== null, "Cannot run a stage that is not loaded");
    return this.#loaded;
  }

  async #load(part: () => Promise<StageFacts>): Promise<void> {
    try {
      this.#channel.send({ type: "loaded", facts: await part() });
    } catch (error) {
      this.#channel.send({ type: "failed", error: toWire(error) });
    }
  }

  async #start({
    step,
    command: sent,
    hidden,
  }: Extract<ToStage, { readonly type: "step" }>): Promise<void> {
    const { executor } = this.#stage;
    const isThere = hidden === null || (await this.#handed.get(step)?.promise) === true;
    this.#handed.delete(step);
    const command = isThere ? sent : movesOnly(sent);
    const onPart = (part: PromptPart) => this.#channel.send({ type: "part", step, part });
    let started: StartedCommand;
    try {
      started = await executor.start(command, onPart, isThere ? hidden : null);
    } catch (error) {
      if (error instanceof MovesFailed) throw error.cause;
      this.#failStep(step, error);
      return;
    }
    if (command.sampling?.edited === true) {
      // A step whose edits do not come is dropped.
      this.#started.clear();
      this.#rows.clear();
      this.#started.set(step, started);
      this.#rows.set(step, command.sampling.count);
    } else this.#finish(step, started);
  }

  /** Sends the result once it is there; steps behind may start meanwhile. */
  #finish(step: number, started: StartedCommand): void {
    this.#started.delete(step);
    this.#rows.delete(step);
    void this.#stage
      .settled()
      .then(() => started.finish())
      .then((result) => {
        this.#channel.send({ type: "result", step, result, times: this.#stage.times() });
      })
      .catch((error: unknown) => this.#failStep(step, error));
  }

  #failStep(step: number, error: unknown): void {
    this.#started.delete(step);
    this.#rows.delete(step);
    this.#channel.send({ type: "stepFailed", step, error: stepFailure(error) });
  }

  #offer({ transfer, pieces, deadlineMs }: OfferShape): void {
    const offers = this.#stage.offer({ transfer, pieces, deadlineMs });
    void offers
      .then((offers) => this.#channel.send({ type: "offers", transfer, offers }))
      .catch((error: unknown) => this.#break(error));
  }

  /** This stage and those behind have sent their parts of a piece; not `ok`: they will not. */
  sent(transfer: number, piece: number, ok: boolean): void {
    this.#channel.send({ type: "sent", transfer, piece, ok });
  }

  /** No piece of a transfer is read any more, here or behind. */
  offerEnded(transfer: number): void {
    this.#channel.send({ type: "offerEnded", transfer });
  }

  #break(error: unknown): void {
    this.#channel.send({ type: "warning", message: `A pipeline stage broke: ${messageOf(error)}` });
    this.#markEnded(messageOf(error));
  }
}
