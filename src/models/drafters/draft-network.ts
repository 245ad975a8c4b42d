import type { DeviceTensor } from "#devices";
import type { BranchDraw } from "./draft-draws.ts";
import { levelStride, type StartedTrees } from "./started-trees.ts";

/** The largest draft of a network, which memory is allocated for. */
export interface DraftNetworkLimits {
  /** S: most sequences at a time. */
  readonly sequencesMax: number;
  /** W: most continuations of a sequence. */
  readonly widthMax: number;
  /** L: most tokens of a continuation. */
  readonly lengthMax: number;
}

/** How much is drafted for a sequence, at most. */
export interface BranchShape {
  readonly width: number;
  readonly length: number;
}

/** What is drafted for a sequence. */
export interface BranchWish extends BranchShape {
  /**
   * The first continuation is what this draws of the network's distribution, and the others follow
   * it in the race; null: the likeliest ones.
   */
  readonly draw: BranchDraw | null;
}

/** The newest tokens where the device alone has them, or may have them before the host. */
export interface DeviceRoots {
  /** [S and more] i32. */
  readonly tokens: DeviceTensor;
  /** [S and more] i32: positions of the first drafted tokens, in the place of the wishes' own. */
  readonly positions: DeviceTensor;
}

/** A network that drafts from one hidden state of each sequence, and keeps nothing of it. */
export interface DraftNetwork {
  readonly parameters: number;
  readonly limits: DraftNetworkLimits;
  /**
   * Continuations of each sequence, the likeliest first: no more than its wish's width, none
   * longer than its length; what begins alike is one path of a tree. `hidden`: [S, H] f32, the
   * hidden states after the final norm that predicted the roots; it is read before this returns.
   * `roots`: [S], the newest tokens.
   */
  branches(
    hidden: DeviceTensor,
    roots: Int32Array,
    wishes: readonly BranchWish[],
  ): Promise<readonly (readonly Int32Array[])[]>;
  /**
   * Enqueues the same of each sequence as a tree whose nodes its wish's shape alone gives: the host
   * need not know the tokens.
   */
  trees(
    hidden: DeviceTensor,
    roots: Int32Array | DeviceRoots,
    wishes: readonly BranchWish[],
  ): StartedTrees;
  /** Releases its own memory; that of the weights is the device's. */
  dispose(): void;
}

/** Most elements of drafted tokens (`count` of what is started), of whatever network. */
export function draftElementsMax(limits: DraftNetworkLimits): number {
  const { sequencesMax, widthMax, lengthMax } = limits;
  // Beams lie beside each other; of Medusa's heads each sequence's choices do.
  const ofLevel = Math.max(
    levelStride(sequencesMax * widthMax),
    levelStride(sequencesMax) * widthMax,
  );
  return lengthMax * ofLevel;
}
