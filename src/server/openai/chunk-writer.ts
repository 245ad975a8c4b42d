import { eventText } from "../event-stream.ts";

/** The fields that all chunks of one answer share. */
export interface ChunkSource {
  readonly id: string;
  readonly created: number;
  readonly modelName: string;
}

/** Writes the chunks of one streamed answer as events; shared fields are serialized only once. */
export class ChunkWriter {
  readonly #head: string;

  /** `object`: the API's type name of the chunks. */
  constructor({ id, created, modelName }: ChunkSource, object: string) {
    this.#head = eventText({ id, object, created, model: modelName }).replace(/\}\n\n$/, "");
  }

  /** One event with one choice or none; `extras` are further fields of the chunk. */
  write(choice: object | null, extras: object | null): string {
    const choices = choice === null ? "" : JSON.stringify(choice);
    const fields = extras === null ? "" : JSON.stringify(extras).slice(1, -1);
    return `${this.#head},"choices":[${choices}]${fields === "" ? "" : ","}${fields}}\n\n`;
  }
}
