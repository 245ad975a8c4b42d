/** Longest event that is read: a server's are far shorter. */
const EVENT_LENGTH_MAX = 2 ** 24;

/** Server-sent events out of pieces of text, cut anywhere. */
export class EventReader {
  readonly #onEvent: (name: string, data: string) => void;
  #rest = "";
  #name = "message";
  #data: string[] = [];

  constructor(onEvent: (name: string, data: string) => void) {
    this.#onEvent = onEvent;
  }

  push(text: string): void {
    this.#rest += text;
    const lines = this.#rest.split("\n");
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > EVENT_LENGTH_MAX) throw new Error("An event of the server is too long");
    for (const line of lines) this.#take(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  #take(line: string): void {
    if (line === "") {
      const [name, data] = [this.#name, this.#data];
      this.#name = "message";
      this.#data = [];
      if (data.length > 0) this.#onEvent(name, data.join("\n"));
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
  }
}
