import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex } from "node:stream";
import { assert, EngineError, type Timer } from "#base";
import type { CommandResult, PromptPart, StepCommand } from "#engine/loop";
import {
  fromWire,
  type HiddenPlace,
  NO_STAGE_TIMES,
  type StageOffer,
  type StageTimes,
} from "#engine/protocol";
import type { RowEdits } from "#sampling";
import { Deferred } from "./deferred.ts";
import { FrameChannel } from "./frame-channel.ts";
import { HiddenSlots } from "./hidden-slots.ts";
import type { FromStage, OfferShape, StageFacts, StagePlan, ToStage } from "./stage-messages.ts";

/** Descriptors of the stage's process: its stream, and the hidden states. */
export const STREAM_FD = 3;
export const SLOTS_FD = 4;

/** A stage that was told to end and does not is killed after so long. */
const END_MS = 10_000;
/** Messages wait while this thread computes: they are read before a stage counts as silent. */
const GRACE_MS = 1000;

export interface StageLinkParts {
  /** The file that the stage's process runs, with this process's id. */
  readonly entry: string;
  readonly plan: StagePlan;
  /** Of all stages. */
  readonly stages: number;
  /** Longest silence of a stage that has work, in ms. */
  readonly timeoutMs: number;
  readonly timer: Timer;
  readonly warn: (message: string) => void;
  /** The stage is gone, and with it the model: no step can follow. Called once, not by `close`. */
  readonly onBroken: (error: EngineError) => void;
}

interface StepAway {
  readonly onPart: (part: PromptPart) => void;
  readonly result: Deferred<CommandResult>;
}

/** A step that was sent. */
export interface SentStep {
  /**
   * Tells the stage that the step's hidden states are in their place; not `ok`: they will not come,
   * and only moves are carried out.
   */
  handed(ok: boolean): void;
  edit(edits: RowEdits): Promise<void>;
  readonly result: Promise<CommandResult>;
}

/**
 * The stage behind this one, a process of its own, and through it all further ones. Steps are sent
 * and answered in order. Whatever ends the process, and silence while it has work, fails all that
 * is under way: the model is not whole any more.
 */
export class StageLink {
  readonly #parts: StageLinkParts;
  readonly #process: ChildProcess;
  readonly #channel: FrameChannel<FromStage, ToStage>;
  /** Where hidden states pass to the stage. */
  readonly slots: HiddenSlots;
  readonly #exited: Promise<void>;
  readonly #steps = new Map<number, StepAway>();
  /** Those whose hidden states are not there yet: the stage has nothing to say of them. */
  readonly #unhanded = new Set<number>();
  readonly #offers = new Map<number, Deferred<readonly StageOffer[]>>();
  /** Offers that have not ended, by transfer. */
  readonly #open = new Map<number, Deferred<void>>();
  /** By transfer and piece. */
  readonly #jobs = new Map<string, Deferred<boolean>>();
  #loading: Deferred<StageFacts> | null = null;
  #nextStep = 0;
  /** The step whose edits have not come; null: there is none. */
  #unedited: number | null = null;
  #stopWatching: () => void = () => {};
  /** Messages since the start, to see silence by. */
  #heard = 0;
  #broken: EngineError | null = null;
  #closing = false;
  #times: readonly StageTimes[];

  /** Starts the process, which begins to load. */
  constructor(parts: StageLinkParts) {
    this.#parts = parts;
    const { plan, entry, stages } = parts;
    this.#times = Array.from({ length: stages - plan.index }, () => NO_STAGE_TIMES);
    this.slots = HiddenSlots.create(plan.slots);
    // Its output is diagnosis: the first stage's standard output may be an answer.
    const stdio = ["ignore", 2, 2, "pipe", this.slots.fd] as const;
    const words = [entry, String(process.pid)];
    this.#process = spawn(process.execPath, words, { stdio: [...stdio], windowsHide: true });
    // As `stdio` has it; of a process that could not be started there may be none.
    const stream = this.#process.stdio[STREAM_FD] as Duplex;
    this.#channel = new FrameChannel(stream);
    this.#exited = new Promise((resolve) => {
      this.#process.once("exit", (code, signal) => {
        this.#end(signal === null ? `ended with code ${code}` : `was ended by ${signal}`);
        resolve();
      });
      this.#process.once("error", (error) => {
        this.#end(`could not be started, ${error.message}`);
        resolve();
      });
    });
    this.#channel.listen({
      onMessage: (message) => this.#take(message),
      // How the process ended says more, if it has ended.
      onEnd: (reason) => {
        this.#parts.timer.after(GRACE_MS, () => this.#end(`cannot be reached, ${reason}`));
      },
    });
    this.#loading = new Deferred();
    this.#channel.send({ type: "load", plan });
  }

  /** Of the stage's process; undefined: there is none. */
  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Where the time of the stages behind went, as their last results had it. */
  get times(): readonly StageTimes[] {
    return this.#times;
  }

  /** What the stages have once the present part of loading is done. */
  async loaded(): Promise<StageFacts> {
    assert(this.#loading !== null, "Cannot wait for a stage that loads nothing");
    return await this.#loading.promise;
  }

  /** Begins a further part of loading. */
  load(message: Extract<ToStage, { readonly type: "steps" | "pool" }>): void {
    this.#loading = new Deferred();
    if (this.#broken !== null) this.#loading.reject(this.#broken);
    this.#channel.send(message);
  }

  /**
   * Sends a step, with the place where the hidden states of its tokens will be, none where it only
   * moves blocks. Where the stage is gone, its end says so.
   */
  start(
    command: StepCommand,
    hidden: HiddenPlace | null,
    onPart: (part: PromptPart) => void,
  ): SentStep {
    const result = new Deferred<CommandResult>();
    if (this.#broken !== null) result.reject(this.#broken);
    else if (isEmpty(command)) result.resolve(NO_RESULT);
    if (this.#broken !== null || isEmpty(command)) return sentNowhere(result.promise);
    this.#dropUnedited();
    const step = this.#nextStep++;
    this.#steps.set(step, { onPart, result });
    if (hidden !== null) this.#unhanded.add(step);
    this.#channel.send({ type: "step", step, command: usedPart(command), hidden });
    this.#watch();
    const rows = command.sampling?.edited === true ? command.sampling.count : 0;
    if (rows > 0) this.#unedited = step;
    return {
      handed: (ok) => {
        if (ok && hidden !== null) this.slots.show(hidden.slot, hidden.bytes);
        this.#unhanded.delete(step);
        this.#channel.send({ type: "handed", step, ok });
        this.#watch();
      },
      edit: async (edits: RowEdits) => {
        if (edits.first + edits.count === rows) this.#unedited = null;
        this.#channel.send({ type: "edits", step, edits });
      },
      result: result.promise,
    };
  }

  /** Offers of a transfer's pieces at each stage, in the order of their layers. */
  async offer(shape: OfferShape): Promise<readonly StageOffer[]> {
    if (this.#broken !== null) throw this.#broken;
    const offers = new Deferred<readonly StageOffer[]>();
    this.#offers.set(shape.transfer, offers);
    this.#open.set(shape.transfer, new Deferred());
    this.#channel.send({ type: "offer", ...shape });
    this.#watch();
    return await offers.promise;
  }

  /** The pieces that were not sent will not be. */
  endOffer(transfer: number, reason: string): void {
    this.#channel.send({ type: "endOffer", transfer, reason });
  }

  /** Settles when the stages' parts of a piece were sent; false: they are not wanted any more. */
  sent(transfer: number, piece: number): Promise<boolean> {
    if (this.#broken !== null || this.#closing) return Promise.resolve(false);
    return this.#job(transfer, piece).promise.finally(() => {
      this.#jobs.delete(`${transfer} ${piece}`);
    });
  }

  /** Settles when no piece of the transfer is read any more. */
  async offersEnded(transfer: number): Promise<void> {
    await this.#open.get(transfer)?.promise;
  }

  /** The news of a piece, which may come before it is waited for. */
  #job(transfer: number, piece: number): Deferred<boolean> {
    const key = `${transfer} ${piece}`;
    const job = this.#jobs.get(key) ?? new Deferred<boolean>();
    this.#jobs.set(key, job);
    return job;
  }

  /** Ends the process, and settles once it has ended. */
  async close(): Promise<void> {
    if (this.#closing) return await this.#exited;
    this.#closing = true;
    this.#stopWatching();
    this.#channel.close();
    const cancel = this.#parts.timer.after(END_MS, () => this.#process.kill("SIGKILL"));
    await this.#exited;
    cancel();
    this.slots.close();
    this.#settleTransfers();
  }

  /** Nothing more is sent. */
  #settleTransfers(): void {
    for (const job of this.#jobs.values()) job.resolve(false);
    for (const open of this.#open.values()) open.resolve();
    this.#jobs.clear();
    this.#open.clear();
  }

  #take(message: FromStage): void {
    this.#heard++;
    switch (message.type) {
      case "loaded":
        this.#loading?.resolve(message.facts);
        break;
      case "failed":
        this.#broken ??= fromWire(message.error);
        this.#loading?.reject(this.#broken);
        break;
      case "warning":
        this.#parts.warn(message.message);
        break;
      case "part":
        this.#steps.get(message.step)?.onPart(message.part);
        break;
      case "result":
        this.#times = message.times;
        this.#endStep(message.step)?.resolve(message.result);
        break;
      case "stepFailed":
        this.#endStep(message.step)?.reject(fromWire(message.error));
        break;
      case "offers":
        this.#offers.get(message.transfer)?.resolve(message.offers);
        this.#offers.delete(message.transfer);
        break;
      case "sent":
        this.#job(message.transfer, message.piece).resolve(message.ok);
        break;
      case "offerEnded":
        this.#open.get(message.transfer)?.resolve();
        this.#open.delete(message.transfer);
        break;
    }
    this.#watch();
  }

  /** A step whose edits did not come is dropped, there and here. */
  #dropUnedited(): void {
    const step = this.#unedited;
    if (step !== null) this.#endStep(step)?.reject(new Error("The step was dropped"));
    this.#unedited = null;
  }

  #endStep(step: number): Deferred<CommandResult> | null {
    const away = this.#steps.get(step);
    this.#steps.delete(step);
    this.#unhanded.delete(step);
    return away?.result ?? null;
  }

  /** While there is work, something must be heard in time. */
  #watch(): void {
    this.#stopWatching();
    if (this.#closing || this.#broken !== null) return;
    if (this.#steps.size - this.#unhanded.size + this.#offers.size === 0) return;
    const { timer, timeoutMs } = this.#parts;
    const heard = this.#heard;
    this.#stopWatching = timer.after(timeoutMs, () => {
      this.#stopWatching = timer.after(GRACE_MS, () => {
        if (heard === this.#heard) this.#end(`said nothing for ${timeoutMs} ms`);
      });
    });
  }

  #end(why: string): void {
    if (this.#closing || this.#broken !== null) return;
    const { plan, stages } = this.#parts;
    const name = `stage ${plan.index + 1} of ${stages} (process ${this.pid ?? "none"})`;
    const error = new EngineError(
      "DEVICE_FAILED",
      `Cannot continue: pipeline ${name} ${why}; look at its messages on standard error, and ` +
        "start this worker again",
    );
    this.#broken = error;
    this.#stopWatching();
    this.#process.kill("SIGKILL");
    this.#loading?.reject(error);
    for (const { result } of this.#steps.values()) result.reject(error);
    for (const offers of this.#offers.values()) offers.reject(error);
    this.#steps.clear();
    this.#unhanded.clear();
    this.#offers.clear();
    this.#settleTransfers();
    this.#parts.onBroken(error);
  }
}

const NO_RESULT: CommandResult = { sampled: null, candidates: [] };

function sentNowhere(result: Promise<CommandResult>): SentStep {
  return { handed: () => {}, edit: async () => {}, result };
}

function isEmpty({ tokens, moves, jobs, peerJobs }: StepCommand): boolean {
  return tokens + moves.length + jobs.length + peerJobs.length === 0;
}

/** The command without what its arrays have behind what the step needs. */
function usedPart(command: StepCommand): StepCommand {
  const { tokens, sequences, contextLengths, tables } = command;
  return {
    ...command,
    tokenIds: command.tokenIds.subarray(0, tokens),
    positions: command.positions.subarray(0, tokens),
    queryStarts: command.queryStarts.subarray(0, sequences + 1),
    contextLengths: contextLengths.subarray(0, sequences),
    tables: tables.map(({ slots, blockTables }) => {
      const blocksPerSequence = blockTables.length / Math.max(1, contextLengths.length);
      return {
        slots: slots.subarray(0, tokens),
        blockTables: blockTables.subarray(0, sequences * blocksPerSequence),
      };
    }),
  };
}
