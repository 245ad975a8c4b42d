/** TLS of questions and of reads: who is let in, what is told to others, and what strangers cost. */
import { connect, type Socket } from "node:net";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import {
  openAsker,
  openQuestionServer,
  openTransferClient,
  openTransferServer,
  type TransferTls,
} from "#transfer";
import { between } from "../support/between.ts";
import { Authority, type Certificate, NO_OPENSSL } from "../support/certificates.ts";

const opened: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

const secret = "the fleet's";
const NOTHING: Certificate = { cert: "", key: "" };

async function serveQuestions(tls: TransferTls | undefined) {
  const answer = async (question: Uint8Array) => Buffer.concat([Buffer.from("re:"), question]);
  const server = await openQuestionServer({ secrets: [secret], answer, ...(tls && { tls }) });
  opened.push(server);
  return server;
}

function asks(peer: { host: string; port: number }, tls: TransferTls | undefined) {
  const asker = openAsker({ secret, ...(tls && { tls }) });
  opened.push(asker);
  const asked = asker.ask(peer, Buffer.from("a prompt of a client"), { deadlineMs: 3000 });
  return asked.then((answer) => Buffer.from(answer).toString());
}

async function reads(server: TransferTls | undefined, client: TransferTls | undefined) {
  const owner = await openTransferServer({ secret, ...(server && { tls: server }) });
  const reader = openTransferClient({
    ...{ secret, ways: ["tcp", "stream"], connectMs: 500 },
    ...(client && { tls: client }),
  });
  opened.push(owner, reader);
  const offer = owner.offer({ pieces: 1, pieceBytesMax: 1000, deadlineMs: 5000 });
  offer.ready(0, [new Uint8Array(1000).fill(7)]);
  const into = new Uint8Array(1000);
  const pieces = [{ index: 0, into: [into] }];
  await reader.read({ peer: owner.address, offer: offer.id, pieces, deadlineMs: 3000 });
  return into;
}

const clients: Socket[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) client.destroy();
});
function dial(port: number, bytes: Uint8Array): Promise<Socket> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(bytes);
      resolve(socket);
    });
    clients.push(socket);
    socket.on("error", () => {}).resume();
  });
}

describe.skipIf(NO_OPENSSL !== null)(`peers with TLS ${NO_OPENSSL ?? ""}`, () => {
  const authority = NO_OPENSSL === null ? new Authority() : null;
  afterAll(() => authority?.[Symbol.dispose]());
  const ca = authority?.ca ?? "";
  const [one, two] = [authority?.issue() ?? NOTHING, authority?.issue() ?? NOTHING];

  /** Another fleet's certificate. */
  function stranger(): TransferTls {
    using other = new Authority();
    return { ...other.issue(), ca: other.ca };
  }

  test("[TR85] nothing of a question, an answer or a piece goes in clear", async () => {
    const server = await serveQuestions({ ...one, ca });
    const seen: Buffer[] = [];
    const proxy = await between(server.address.port, (chunk) => {
      seen.push(chunk);
      return chunk;
    });
    opened.push(proxy);
    expect(await asks(proxy.peer, { ...two, ca })).toBe("re:a prompt of a client");
    expect(seen.length).toBeGreaterThan(0);
    expect(Buffer.concat(seen).includes("a prompt")).toBe(false);

    const owner = await openTransferServer({ secret, tls: { ...one, ca } });
    opened.push(owner);
    const told: Buffer[] = [];
    const way = await between(owner.address.port, (chunk) => {
      told.push(chunk);
      return chunk;
    });
    opened.push(way);
    const offer = owner.offer({ pieces: 1, pieceBytesMax: 4096, deadlineMs: 5000 });
    offer.ready(0, [Buffer.from("keys and values ".repeat(256))]);
    const reader = openTransferClient({ secret, tls: { ...two, ca }, ways: ["tcp", "stream"] });
    opened.push(reader);
    const into = new Uint8Array(4096);
    const pieces = [{ index: 0, into: [into] }];
    await reader.read({ peer: way.peer, offer: offer.id, pieces, deadlineMs: 3000 });
    expect(Buffer.from(into).toString()).toBe("keys and values ".repeat(256));
    expect(Buffer.concat(told).includes("keys and values")).toBe(false);
  });

  test("[TR86] with an authority both sides show a certificate that it signed", async () => {
    const server = await serveQuestions({ ...one, ca });
    expect(await asks(server.address, { ...two, ca })).toBe("re:a prompt of a client");
    const foreign = stranger();
    // They are shown a good certificate, and have none, or another authority's, themselves.
    await expect(asks(server.address, { ca })).rejects.toThrow(
      "it wants a certificate that its authority signed",
    );
    await expect(asks(server.address, { ...foreign, ca })).rejects.toThrow(
      "nobody there answers to this secret and this certificate",
    );
    // They would show a good certificate, and do not accept the one that they are shown.
    await expect(asks(server.address, foreign)).rejects.toThrow(
      /its certificate is not accepted: .*certificate/,
    );
    await expect(asks(server.address, two)).rejects.toThrow("its certificate is not accepted");
    // The first one is kept for further questions.
    await expect.poll(() => server.connections).toBe(1);

    expect((await reads({ ...one, ca }, { ...two, ca })).every((byte) => byte === 7)).toBe(true);
    for (const wrong of [{ ca }, { ...foreign, ca }, foreign, two]) {
      await expect(reads({ ...one, ca }, wrong)).rejects.toMatchObject({ name: "TransferError" });
    }
  });

  test("[TR86] without one, peers that ask show none, and accept those that they know", async () => {
    const server = await serveQuestions(one);
    expect(await asks(server.address, { ca })).toBe("re:a prompt of a client");
    expect((await reads(one, { ca })).every((byte) => byte === 7)).toBe(true);
    await expect(asks(server.address, {})).rejects.toThrow("its certificate is not accepted");
  });

  test("[TR86] a certificate holds for the addresses that it names", async () => {
    const other = authority?.issue("DNS:elsewhere.example") ?? NOTHING;
    const server = await serveQuestions({ ...other, ca });
    await expect(asks(server.address, { ...two, ca })).rejects.toThrow(
      /its certificate is not accepted: .*altnames/,
    );
  });

  test("[TR87] a peer that encrypts and one that does not tell each other so", async () => {
    const encrypting = await serveQuestions({ ...one, ca });
    await expect(asks(encrypting.address, undefined)).rejects.toThrow(
      "it encrypts its connections: this side has no certificate",
    );
    const plain = await serveQuestions(undefined);
    await expect(asks(plain.address, { ...two, ca })).rejects.toThrow(
      "it does not encrypt: it has no certificate",
    );
    await expect(reads(undefined, { ...two, ca })).rejects.toThrow("it does not encrypt");
    await expect(reads({ ...one, ca }, undefined)).rejects.toThrow("no answer within 500 ms");
    await expect.poll(() => encrypting.connections + plain.connections).toBe(0);
  });

  test("[TR88] strangers that never end their handshake are counted, and end", async () => {
    const owner = await openTransferServer({
      ...{ secret, tls: { ...one, ca }, connectionsMax: 4, handshakeMs: 300 },
    });
    opened.push(owner);
    const { port } = owner.address;
    // The first byte of a handshake, garbage that begins like one, garbage that does not.
    const begun = [Buffer.of(0x16), Buffer.alloc(0), Buffer.of(0x16, 3, 1, 0)];
    for (let round = 0; round < 2; round++) for (const bytes of begun) await dial(port, bytes);
    await expect.poll(() => owner.stats().refusedConnections).toBeGreaterThanOrEqual(2);
    expect(owner.stats().connections).toBeLessThanOrEqual(4);
    await expect.poll(() => owner.stats().connections).toBe(0);
    for (let place = 0; place < 60; place++) {
      await dial(port, Buffer.alloc(place * 7, place % 2 === 0 ? 0x16 : place));
    }
    await expect.poll(() => owner.stats().connections, { timeout: 5000 }).toBe(0);
    const reader = openTransferClient({ secret, tls: { ...two, ca } });
    opened.push(reader);
    const offer = owner.offer({ pieces: 1, pieceBytesMax: 10, deadlineMs: 5000 });
    offer.ready(0, [Buffer.from("0123456789")]);
    const pieces = [{ index: 0, into: [new Uint8Array(10)] }];
    await reader.read({ peer: owner.address, offer: offer.id, pieces, deadlineMs: 3000 });
  });

  test("[TR88] nor do those that ask questions hold anything", async () => {
    const server = await serveQuestions({ ...one, ca });
    for (let place = 0; place < 40; place++) {
      const socket = await dial(server.address.port, Buffer.alloc(100, place % 3 === 0 ? 0x16 : 1));
      if (place % 2 === 0) socket.destroy();
    }
    await expect.poll(() => server.connections, { timeout: 8000 }).toBe(0);
    expect(await asks(server.address, { ...two, ca })).toBe("re:a prompt of a client");
  }, 15_000);

  test.for<[string, TransferTls, string, string]>([
    ["no key", { cert: one.cert }, "tls.key", "the key is missing"],
    ["no certificate", { key: one.key }, "tls.cert", "the cert is missing"],
    ["a key of another", { cert: one.cert, key: two.key }, "tls.cert", "they are refused: "],
    ["a text", { cert: "certificate", key: one.key }, "tls.cert", "they are refused: "],
    ["no authority", { ...one, ca: "authority" }, "tls.ca", "there is none"],
    [
      "a broken authority",
      { ...one, ca: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" },
      ...(["tls.ca", "one is refused: "] as const),
    ],
  ])("[TR89] %s is refused when a peer listens", async ([, tls, param, reason]) => {
    const failure = { code: "INVALID_ARGUMENT", param, message: expect.stringContaining(reason) };
    await expect(openTransferServer({ tls })).rejects.toMatchObject(failure);
    const answer = async (question: Uint8Array) => question;
    await expect(openQuestionServer({ secrets: [], answer, tls })).rejects.toMatchObject(failure);
  });
});
