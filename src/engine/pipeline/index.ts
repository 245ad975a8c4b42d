/**
 * engine/pipeline: a model over several processes, each with some of its layers.
 *
 *   stage-link.ts      the stage behind this one: its process, its steps, its end
 *   stage-server.ts    the other side of it
 *   stage-messages.ts  what they tell each other; frame-channel.ts: as bytes of a local stream
 *   hidden-slots.ts    hidden states, in memory that both map
 *   parent-end.ts      the end of a stage whose starter is gone
 *
 * A stage starts the one behind it, sends it each step once its own layers are enqueued, says when
 * the step's hidden states are there, and hands back what comes of it. So a chain of any length is
 * a stage with a stage behind it, and the last one samples.
 *
 * Invariant: a stage never outlives the one before it: its stream ends with that, and on Linux the
 * system kills it.
 * Invariant: steps are carried out in the same order at all stages, and so are moves of blocks.
 *
 * @module
 */
export { FrameChannel } from "./frame-channel.ts";
export { HiddenSlots, SLOT_BYTES_MAX, type SlotSizes } from "./hidden-slots.ts";
export { endWithParent } from "./parent-end.ts";
export {
  type SentStep,
  SLOTS_FD,
  STREAM_FD,
  StageLink,
  type StageLinkParts,
} from "./stage-link.ts";
export type {
  FromStage,
  OfferShape,
  StageFacts,
  StagePlan,
  ToStage,
} from "./stage-messages.ts";
export {
  type LoadedStage,
  type StageExecutor,
  type StageLoader,
  StageServer,
} from "./stage-server.ts";
