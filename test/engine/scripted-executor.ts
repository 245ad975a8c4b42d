/** Commands without a device: every token is the one before it plus one. */
import type { CacheMoves } from "#kvcache";
import type { TokenCandidates } from "#sampling";
import type { StepCommand } from "../../src/engine/loop/step-command.ts";
import type {
  PromptPart,
  StartedCommand,
  StepExecutor,
} from "../../src/engine/loop/step-executor.ts";

/** What the script does in a step before its results are there. */
export type StepHook = () => void | Promise<void>;

export class ScriptedExecutor implements StepExecutor {
  duringStep: StepHook = () => {};
  readonly #memory: { carryOut(moves: CacheMoves): void };
  /** The last sampled tokens, by row. */
  #sampled = new Int32Array();

  constructor(memory: { carryOut(moves: CacheMoves): void }) {
    this.#memory = memory;
  }

  async start(command: StepCommand, onPart: (part: PromptPart) => void): Promise<StartedCommand> {
    this.#memory.carryOut(command);
    command.prompts.forEach(({ hiddenCount }, prompt) => {
      const values = new Float32Array(2 * hiddenCount).fill(1);
      if (hiddenCount > 0) onPart({ prompt, first: 0, kind: "hidden", values });
    });
    const read = this.#lastTokens(command);
    const sampled = read.slice(0, command.sampling?.count ?? 0).map((token) => token + 1);
    if (sampled.length > 0) this.#sampled = sampled;
    const candidates = command.searches.map(({ rows, candidates: count }) =>
      candidatesBehind(
        rows.map((row) => read[row] ?? 0),
        count,
      ),
    );
    return {
      movesMs: 0,
      edit: async () => {},
      finish: async () => {
        if (command.tokens > 0) await this.duringStep();
        return { sampled: { tokens: sampled, logprobs: null }, candidates };
      },
    };
  }

  /** The tokens of the rows that are read. */
  #lastTokens({ tokens, tokenIds, tokenSources, logitRows }: StepCommand): Int32Array {
    const rows = logitRows ?? Int32Array.from({ length: tokens }, (_, row) => row);
    return rows.map((row) => {
      const source = tokenSources?.[row] ?? -1;
      return (source < 0 ? tokenIds[row] : this.#sampled[source]) ?? 0;
    });
  }
}

/** The next numbers, each half as likely as the one before. */
function candidatesBehind(last: readonly number[], count: number): TokenCandidates {
  const places = Array.from({ length: count }, (_, place) => place + 1);
  return {
    count,
    tokenIds: Int32Array.from(last.flatMap((token) => places.map((place) => token + place))),
    logprobs: Float32Array.from(last.flatMap(() => places.map((place) => -place * Math.LN2))),
  };
}
