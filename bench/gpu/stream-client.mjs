/**
 * One client process of bench/gpu/serve.mjs: keeps its share of streams open, one request after
 * another, and tells its parent when every token came. By the openai package, or by fetch where
 * that is not installed.
 *
 *   node stream-client.mjs '{"url":…,"model":…,"streams":64,"rounds":3,"promptTokens":…}'
 */
const options = JSON.parse(process.argv[2]);
const { url, model, streams, rounds, promptTokens, outputTokens, vocabularySize } = options;

/** The openai client, or null. */
async function openClient() {
  try {
    const { default: OpenAI } = await import("openai");
    return new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 600_000 });
  } catch (error) {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    return null;
  }
}

const client = await openClient();

/** Every stream has a prompt of its own: token ids, so that lengths are exact. */
function body() {
  const prompt = Array.from({ length: promptTokens }, () =>
    Math.floor(Math.random() * vocabularySize),
  );
  const streaming = { stream: true, stream_options: { include_usage: true } };
  return {
    model,
    prompt,
    max_tokens: outputTokens,
    temperature: 0,
    ignore_eos: true,
    ...streaming,
  };
}

/** Parsed events of one streamed completion. */
async function* eventsOf(request) {
  if (client !== null) {
    yield* await client.completions.create(request);
    return;
  }
  const headers = { "content-type": "application/json" };
  const options = { method: "POST", headers, body: JSON.stringify(request) };
  const response = await fetch(`${url}/v1/completions`, options);
  if (!response.ok) throw new Error(`status ${response.status}: ${await response.text()}`);
  let rest = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: {")) yield JSON.parse(line.slice(6));
    }
  }
}

/** Milliseconds to the first event with a choice and between them, and how many tokens came. */
async function timeStream() {
  const begun = performance.now();
  let last = null;
  let firstMs = null;
  let tokens = 0;
  const gapsMs = [];
  for await (const event of eventsOf(body())) {
    const now = performance.now();
    if (event.choices?.length > 0) {
      if (last === null) firstMs = now - begun;
      else gapsMs.push(now - last);
      last = now;
    }
    tokens = event.usage?.completion_tokens ?? tokens;
  }
  return { firstMs, gapsMs, tokens };
}

/** One place of the load: the next request begins when the last one ended. */
async function keepStreaming() {
  const timings = [];
  let failed = 0;
  for (let round = 0; round < rounds; round++) {
    try {
      timings.push(await timeStream());
    } catch (error) {
      failed++;
      if (failed === 1) console.error(error.message);
    }
  }
  return { timings, failed };
}

// Not counted: a client that has compiled nothing yet takes most of the time of its first request.
await timeStream();
process.on("message", async () => {
  const before = process.cpuUsage();
  const results = await Promise.all(Array.from({ length: streams }, keepStreaming));
  const { user, system } = process.cpuUsage(before);
  const result = {
    by: client === null ? "fetch" : "openai",
    cpuSeconds: (user + system) / 1e6,
    timings: results.flatMap(({ timings }) => timings),
    failed: results.reduce((sum, { failed }) => sum + failed, 0),
  };
  // Behind the last byte: a channel that closes before drops what is still to be sent.
  process.send(result, () => process.disconnect());
});
process.send({ ready: true });
