import { eventText } from "../event-stream.ts";

/** What all chunks of one answer have in common. */
export interface ChunkSource {
  readonly id: string;
  readonly created: number;
  readonly modelName: string;
}

/** Writes the chunks of one streamed answer as events; what they share becomes text only once. */
export class ChunkWriter {
  readonly #head: string;

  /** `object`: the API's name for such chunks. */
  constructor({ id, created, modelName }: ChunkSource, object: string) {
    this.#head = eventText({ id, object, created, model: modelName }).replace(/\}\n\n$/, "");
  }

  /** One event with a choice, or with none; `extras` are fields of the chunk behind it. */
  write(choice: object | null, extras: object | null): string {
    const choices = choice === null ? "" : JSON.stringify(choice);
    const fields = extras === null ? "" : JSON.stringify(extras).slice(1, -1);
    return `${this.#head},"choices":[${choices}]${fields === "" ? "" : ","}${fields}}\n\n`;
  }
}
