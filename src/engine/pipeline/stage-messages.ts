/** What a stage and the one behind it tell each other. */
import type { CommandResult, PromptPart, StepCommand } from "#engine/loop";
import type {
  EngineOptions,
  HiddenPlace,
  StageOffer,
  StageTimes,
  WireError,
} from "#engine/protocol";
import type { RowEdits } from "#sampling";
import type { SlotSizes } from "./hidden-slots.ts";

/** The pieces that stages are to offer. */
export interface OfferShape {
  readonly transfer: number;
  readonly pieces: number;
  readonly deadlineMs: number;
}

/** What a stage is to load. */
export interface StagePlan {
  /** Of this stage; the first one is 0. */
  readonly index: number;
  readonly path: string;
  /** With the kind of device that the first stage has. */
  readonly options: EngineOptions;
  readonly slots: SlotSizes;
}

/** To the stage behind. The first three load it, in this order; each is answered by `loaded`. */
export type ToStage =
  | { readonly type: "load"; readonly plan: StagePlan }
  /** Weights are there: memory of steps for sequences of so many tokens. */
  | { readonly type: "steps"; readonly contextTokensMax: number }
  | { readonly type: "pool"; readonly blocks: number; readonly hostBlocks: number }
  /** A step, and where its hidden states will be; null: it only moves blocks. */
  | {
      readonly type: "step";
      readonly step: number;
      readonly command: StepCommand;
      readonly hidden: HiddenPlace | null;
    }
  /** The step's hidden states are there; not `ok`: they will not come, it only moves blocks. */
  | { readonly type: "handed"; readonly step: number; readonly ok: boolean }
  | { readonly type: "edits"; readonly step: number; readonly edits: RowEdits }
  | ({ readonly type: "offer" } & OfferShape)
  | { readonly type: "endOffer"; readonly transfer: number; readonly reason: string };

/** What a stage and all behind it have once a part of loading is done. */
export interface StageFacts {
  /** Blocks that their memory would hold now. */
  readonly blocks: number;
  readonly parameters: number;
  /** Of each of them. */
  readonly devices: readonly string[];
}

/** From the stage behind. */
export type FromStage =
  | { readonly type: "loaded"; readonly facts: StageFacts }
  | { readonly type: "failed"; readonly error: WireError }
  | { readonly type: "warning"; readonly message: string }
  | { readonly type: "part"; readonly step: number; readonly part: PromptPart }
  | {
      readonly type: "result";
      readonly step: number;
      readonly result: CommandResult;
      /** Of this stage and all behind it, since their start. */
      readonly times: readonly StageTimes[];
    }
  | { readonly type: "stepFailed"; readonly step: number; readonly error: WireError }
  | { readonly type: "offers"; readonly transfer: number; readonly offers: readonly StageOffer[] }
  /** No piece of the transfer is read any more. */
  | { readonly type: "offerEnded"; readonly transfer: number }
  | {
      readonly type: "sent";
      readonly transfer: number;
      readonly piece: number;
      readonly ok: boolean;
    };
