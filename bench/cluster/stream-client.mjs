// Asks for a stream of server-sent events, with little work for each.
import { Agent, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";

const agent = new Agent({ keepAlive: true, maxSockets: 4096 });

/**
 * Posts a body and reads the stream to its end. Never rejects.
 *
 * @returns {Promise<{ error: string | null, firstMs: number, lastMs: number, totalMs: number,
 *   chunks: number, text: string, usage: any }>} times since the request was sent; `firstMs` of the
 *   first event with content
 */
export function askStream(url, { headers, body, timeoutMs }) {
  const started = performance.now();
  const answer = {
    ...{ error: null, firstMs: 0, lastMs: 0, totalMs: 0, chunks: 0, text: "", usage: null },
  };
  return new Promise((resolve) => {
    let over = false;
    const finish = (error) => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      answer.error = error;
      answer.totalMs = performance.now() - started;
      resolve(answer);
    };
    const isHttps = url.startsWith("https:");
    const send = isHttps ? httpsRequest : httpRequest;
    const options = {
      method: "POST",
      headers: { ...headers, "content-length": Buffer.byteLength(body) },
    };
    const request = send(url, isHttps ? options : { ...options, agent }, (response) => {
      if (response.statusCode !== 200) {
        response.resume();
        finish(`HTTP ${response.statusCode}`);
        return;
      }
      const reader = new EventReader(answer, started);
      response.setEncoding("utf8");
      response.on("data", (text) => reader.take(text));
      response.on("end", () => finish(reader.problem()));
      response.on("error", (error) => finish(error.code ?? error.message));
    });
    const timer = setTimeout(() => {
      finish("timeout");
      request.destroy();
    }, timeoutMs);
    request.on("error", (error) => finish(error.code ?? error.message));
    request.end(body);
  });
}

class EventReader {
  #rest = "";
  #answer;
  #started;
  #done = false;
  #failure = null;

  constructor(answer, started) {
    this.#answer = answer;
    this.#started = started;
  }

  take(text) {
    const events = (this.#rest + text).split("\n\n");
    this.#rest = events.pop() ?? "";
    for (const event of events) this.#read(event);
  }

  problem() {
    if (this.#failure !== null) return this.#failure;
    return this.#done ? null : "cut off";
  }

  #read(event) {
    if (!event.startsWith("data: ")) return;
    const data = event.slice(6);
    if (data === "[DONE]") {
      this.#done = true;
      return;
    }
    const parsed = JSON.parse(data);
    if (parsed.error !== undefined) {
      this.#failure = `stream error ${parsed.error?.code ?? ""}`.trim();
      return;
    }
    if (parsed.usage != null) this.#answer.usage = parsed.usage;
    const [choice] = parsed.choices ?? [];
    const text = choice?.text ?? choice?.delta?.content ?? "";
    if (text === "") return;
    const nowMs = performance.now() - this.#started;
    if (this.#answer.chunks === 0) this.#answer.firstMs = nowMs;
    this.#answer.lastMs = nowMs;
    this.#answer.chunks++;
    this.#answer.text += text;
  }
}
