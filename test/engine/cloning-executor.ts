import type { RowEdits } from "#sampling";
import type { StepCommand } from "../../src/engine/loop/step-command.ts";
import type {
  CommandResult,
  PromptPart,
  StartedCommand,
  StepExecutor,
} from "../../src/engine/loop/step-executor.ts";

/** All that crosses is cloned, as if the other side were another process. */
export class CloningExecutor implements StepExecutor {
  /** Every command so far. */
  readonly commands: StepCommand[] = [];
  readonly #executor: StepExecutor;

  constructor(executor: StepExecutor) {
    this.#executor = executor;
  }

  async start(command: StepCommand, onPart: (part: PromptPart) => void): Promise<StartedCommand> {
    const clone = structuredClone(command);
    this.commands.push(clone);
    const started = await this.#executor.start(clone, (part) => onPart(structuredClone(part)));
    return {
      movesMs: started.movesMs,
      edit: (edits: RowEdits) => started.edit(structuredClone(edits)),
      finish: async (): Promise<CommandResult> => structuredClone(await started.finish()),
    };
  }
}
