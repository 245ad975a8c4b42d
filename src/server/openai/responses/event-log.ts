/** Events of one streamed response, numbered in order; text that waits to be sent. */
export class EventLog {
  readonly #isWanted: boolean;
  #text = "";
  #next = 0;

  /** Nothing is written where no stream is wanted. */
  constructor(isWanted: boolean) {
    this.#isWanted = isWanted;
  }

  /** Writes one event. What it names is read now. */
  emit(type: string, fields: object): void {
    if (!this.#isWanted) return;
    const data = JSON.stringify({ type, sequence_number: this.#next++, ...fields });
    this.#text += `event: ${type}\ndata: ${data}\n\n`;
  }

  /** The events that have not been taken. */
  take(): string {
    const text = this.#text;
    this.#text = "";
    return text;
  }
}
