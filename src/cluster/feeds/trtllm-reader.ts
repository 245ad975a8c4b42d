/** What answers of TensorRT-LLM's servers mean, one after the other. */
import { messageOf } from "#base";
import type { KvChange, KvFeedSink } from "#cluster/protocol";
import { blockNames } from "./block-names.ts";
import { malformed } from "./engine-fields.ts";
import type { PacedWarnings } from "./paced-warnings.ts";
import {
  type TrtllmBlock,
  type TrtllmData,
  type TrtllmPlace,
  trtllmData,
  trtllmList,
  trtllmPlace,
} from "./trtllm-events.ts";
import type { WorkerScope } from "./worker-scope.ts";

/** Names of a rank differ from those of others; as with vLLM's, 256 per rank. */
const NAMES_PER_RANK = 256;
/** Most ranks whose numbers are kept. */
const RANKS_MAX = 1024;

/**
 * Follows the events of the layers that see most, as others' readers do (T 2.3): where those do not
 * have a block, no other layer's copy of it helps. Numbers have no gaps for each rank; lost events
 * do not come again, and numbers that begin anew come from another start: both are a reset.
 */
export class TrtllmReader {
  readonly #scope: WorkerScope;
  readonly #sink: KvFeedSink;
  readonly #warnings: PacedWarnings;
  readonly #nextIds = new Map<number, number>();
  /** Of the layers that are followed. */
  #window = 0;
  #layerGroup = 0;
  #changes: KvChange[] = [];

  constructor(scope: WorkerScope, sink: KvFeedSink, warnings: PacedWarnings) {
    this.#scope = scope;
    this.#sink = sink;
    this.#warnings = warnings;
  }

  /** Reads an answer: its number of events. Throws INVALID_ARGUMENT for one that is none. */
  read(text: string): number {
    const events = trtllmList(text);
    for (const event of events) {
      try {
        this.#event(event);
      } catch (error) {
        this.#warnings.warn("event", messageOf(error));
      }
    }
    this.#flush();
    return events.length;
  }

  #event(event: unknown): void {
    const place = trtllmPlace(event);
    this.#expect(place);
    const data = trtllmData(event);
    if (!this.#isFollowed(place)) return;
    this.#changes.push(...this.#changesOf(data, place.rank * NAMES_PER_RANK));
  }

  /** Checks the number, also of events that are not followed. */
  #expect({ id, rank }: TrtllmPlace): void {
    const next = this.#nextIds.get(rank);
    if (next === undefined && this.#nextIds.size >= RANKS_MAX) {
      this.#reset(`there are more than ${RANKS_MAX} ranks`);
    } else if (next !== undefined && id < next) this.#reset("the worker began anew");
    else if (next !== undefined && id > next) this.#reset(`events ${next} to ${id - 1} were lost`);
    this.#nextIds.set(rank, id + 1);
  }

  #isFollowed({ window, layerGroup }: TrtllmPlace): boolean {
    const isWider = window > this.#window;
    if (isWider || (window === this.#window && layerGroup < this.#layerGroup)) {
      // Known only now where the first events were lost: all that was told is of other layers.
      if (this.#window > 0) this.#reset("other layers see more");
      this.#window = window;
      this.#layerGroup = layerGroup;
    }
    return window === this.#window && layerGroup === this.#layerGroup;
  }

  #reset(reason: string): void {
    this.#flush();
    this.#nextIds.clear();
    this.#window = 0;
    this.#layerGroup = 0;
    this.#sink.reset(reason);
  }

  #flush(): void {
    if (this.#changes.length > 0) this.#sink.apply(this.#changes);
    this.#changes = [];
  }

  #changesOf(data: TrtllmData, group: number): KvChange[] {
    switch (data.type) {
      case "stored":
        return this.#stored(data, group);
      case "removed": {
        if (data.hashes.length === 0) return [];
        return [{ type: "removed", names: blockNames(data.hashes, group), level: null }];
      }
      case "updated": {
        if (data.move === null) return [];
        return [{ type: "moved", names: blockNames([data.hash], group), ...data.move }];
      }
      default:
        return [];
    }
  }

  #stored({ parent, blocks }: TrtllmData & { type: "stored" }, group: number): KvChange[] {
    const { blockTokens } = this.#scope;
    const changes: KvChange[] = [];
    let run: TrtllmBlock[] = [];
    let before = parent;
    const end = () => {
      const [first] = run;
      if (first !== undefined) changes.push(this.#run(run, first, before, group));
      before = run.at(-1)?.hash ?? before;
      run = [];
    };
    for (const block of blocks) {
      const { tokens } = block;
      if (tokens !== null && tokens.length > blockTokens) {
        throw malformed("tokens", `${blockTokens}, as the worker says`, tokens.length);
      }
      const last = run.at(-1);
      const continues =
        last === undefined ||
        (last.level === block.level && last.salt === block.salt && last.lora === block.lora);
      const isFullText = tokens?.length === blockTokens;
      if (!continues || !isFullText) end();
      if (isFullText) run.push(block);
      else before = block.hash;
    }
    end();
    return changes;
  }

  #run(
    run: readonly TrtllmBlock[],
    { level, salt, lora }: TrtllmBlock,
    parent: bigint | null,
    group: number,
  ): KvChange {
    const hashes = run.map(({ hash }) => hash);
    return {
      type: "stored",
      scope: { ...this.#scope, salt, lora, group: 0 },
      level,
      parent: parent === null ? null : blockNames([parent], group),
      names: blockNames(hashes, group),
      tokens: Uint32Array.from(run.flatMap(({ tokens }) => tokens ?? [])),
    };
  }
}
