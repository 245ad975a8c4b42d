/** Engines with certificates: what travels between them, and what does not without. */
import { afterAll, describe, expect, test } from "vitest";
import type { LoadOptions } from "../../../src/index.ts";
import { Authority, NO_OPENSSL } from "../../support/certificates.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { json } from "../../support/json.ts";
import { alone, GREEDY, ids, load, MODEL, sourceOf } from "./peers.ts";

const TEST_MS = 120_000;
const secrets = ["a secret that all engines of the fleet know"];

describe.skipIf(NO_OPENSSL !== null)(`engines with TLS ${NO_OPENSSL ?? ""}`, () => {
  const authority = NO_OPENSSL === null ? new Authority() : null;
  afterAll(() => authority?.[Symbol.dispose]());
  const ca = authority?.ca ?? "";

  /** A certificate of its own, known by the authority's. */
  function tls() {
    if (authority === null) throw new Error("It is skipped");
    return { ...authority.issue(), ca };
  }

  /** On a thread of its own, and with memory that is not shared: pieces go by the connection. */
  function engine(kvTransfer: LoadOptions["kvTransfer"]) {
    return load({ device: "reference", engineThread: true, kvTransfer });
  }
  const expected = (prompt: readonly number[]) =>
    alone([prompt], GREEDY, { own: { device: "reference" } });

  test("[TR90] blocks are asked for and read encrypted, and tokens are those of one", async () => {
    const { llm: prefill } = await engine({ secrets, tls: tls() });
    const { llm: decode, warnings } = await engine({ secrets, tls: tls() });
    await using _ = prefill;
    await using __ = decode;
    const prompt = ids(1, 100);
    const params = { ...GREEDY, kvSource: sourceOf(prefill) };
    const [found] = await decode.generate([{ promptTokenIds: prompt }], params);
    expect([found?.completions]).toEqual(await expected(prompt));
    expect(warnings.join()).not.toContain("Cannot fetch");
    expect(prefill.stats().computedPromptTokens).toBe(99);
    expect(decode.stats().computedPromptTokens).toBe(1);
    const sent = prefill.stats().cache?.sent;
    expect(sent).toEqual({ bytes: expect.any(Number), mapped: 0, nixl: 0 });
    expect(sent?.bytes).toBeGreaterThanOrEqual(6);
  });

  test("[TR87] [TR90] one with a certificate and one without compute, and say why", async () => {
    using other = new Authority();
    const foreign = { ...other.issue(), ca: other.ca };
    const { llm: encrypting, warnings: itsWarnings } = await engine({ secrets, tls: tls() });
    const { llm: plain, warnings: plainWarnings } = await engine({ secrets });
    const { llm: strange, warnings: strangeWarnings } = await engine({ secrets, tls: foreign });
    await using _ = encrypting;
    await using __ = plain;
    await using ___ = strange;
    for (const [seed, taker, giver, warnings, reason] of [
      [1, plain, encrypting, plainWarnings, "it encrypts its connections: this side has no cert"],
      [2, encrypting, plain, itsWarnings, "it does not encrypt: it has no certificate"],
      [3, strange, encrypting, strangeWarnings, "its certificate is not accepted: "],
    ] as const) {
      const prompt = ids(seed, 60);
      const before = taker.stats().computedPromptTokens;
      const params = { ...GREEDY, kvSource: sourceOf(giver) };
      const [found] = await taker.generate([{ promptTokenIds: prompt }], params);
      expect([found?.completions]).toEqual(await expected(prompt));
      expect(taker.stats().computedPromptTokens - before).toBe(60);
      expect(warnings.at(-1)).toContain(reason);
      expect(warnings.at(-1)).toMatch(/^Cannot fetch keys and values from .*computed here$/);
    }
  });

  test("[TR89] what is no certificate is refused when the model is loaded", async () => {
    const broken = { ...tls(), key: "a key" };
    await expect(engine({ tls: broken })).rejects.toMatchObject({
      ...{ code: "INVALID_ARGUMENT", param: "tls.cert" },
    });
    await expect(engine({ tls: tls(), nixl: "libnixl_capi.so" })).rejects.toMatchObject({
      ...{ code: "INVALID_ARGUMENT", param: "kvTransfer.nixl" },
    });
  });

  test("[TR90] a worker of two stages gives with its certificate, and tells what is wrong", {
    timeout: TEST_MS,
  }, async () => {
    const { cert, key } = tls();
    const files = {
      cert: authority?.write("worker.pem", cert) ?? "",
      key: authority?.write("worker.key", key) ?? "",
      ca: authority?.write("authority.pem", ca) ?? "",
    };
    const words = ["--device", "cpu", "--dtype", "float32", "--threads", "1", "--port", "0"];
    const flags = (own: Partial<typeof files>) =>
      Object.entries(own).flatMap(([name, file]) => [`--kv-transfer-tls-${name}`, file]);
    const worker = await FleetProcess.start([
      ...["worker", MODEL, "--role", "prefill", "--pipeline-stages", "2", ...words],
      ...flags(files),
    ]);
    try {
      const { transfer } = await json(await fetch(`${worker.url}/worker_info`));
      const address = transfer as unknown as { host: string; port: number };
      const { llm: decode, warnings } = await load({
        engineThread: true,
        kvTransfer: { tls: tls() },
      });
      await using _ = decode;
      const prompt = ids(4, 100);
      const params = { ...GREEDY, kvSource: { ...address, compute: true } };
      const [found] = await decode.generate([{ promptTokenIds: prompt }], params);
      expect([found?.completions]).toEqual(await alone([prompt]));
      expect(warnings.join()).not.toContain("Cannot fetch");
      expect(decode.stats().computedPromptTokens).toBe(1);
    } finally {
      await worker.end("SIGTERM");
    }
  });
});
