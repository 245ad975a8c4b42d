/** The same contract by NIXL, whose library is in a Python package. */
import { randomBytes } from "node:crypto";
import { afterAll, describe, expect, test, vi } from "vitest";
import { openTransferClient, openTransferServer, sharedMemory } from "#transfer";
import { FRAME, FrameWriter, frameOf } from "../../src/transfer/frames.ts";
import { NixlAgent } from "../../src/transfer/nixl/agent.ts";
import { transferContract } from "../contracts/transfer.ts";
import { lyingOwner } from "../support/lying-owner.ts";
import { NIXL, NO_NIXL } from "../support/nixl.ts";

const secret = "a secret of the fleet";
const ARENA_BYTES = 64 * 2 ** 20;

const opened: { release(): void }[] = [];
afterAll(() => {
  for (const memory of opened) memory.release();
});

const agentFrame = (metadata: Uint8Array) => frameOf(FRAME.agent, metadata);
/** So many bytes at the address 4096, as piece `piece` of read 1. */
const remote = (bytes: number, piece: number) =>
  new FrameWriter(22).u32(1).u32(piece).u64(4096n).u48(bytes).frame(FRAME.remote);

/** Parts of one large region, since each region is registered by itself. */
function arena(): (bytes: number) => Uint8Array {
  const memory = sharedMemory(ARENA_BYTES);
  opened.push(memory);
  let taken = 0;
  return (bytes) => {
    if (taken + bytes > ARENA_BYTES) taken = 0;
    const part = memory.memory.subarray(taken, taken + bytes).fill(0);
    taken += bytes;
    return part;
  };
}

describe.skipIf(NO_NIXL !== null)(`NIXL${NO_NIXL === null ? "" : ` (${NO_NIXL})`}`, () => {
  const nixl = NIXL ?? "";
  const server = { secret, nixl };
  transferContract("from registered memory to registered memory", {
    ...{ server, memory: arena(), target: arena(), way: "nixl" },
    client: { secret, nixl, ways: ["nixl"] },
  });
  transferContract("to memory that is not registered: data connections", {
    ...{ server, memory: arena(), way: "bytes" },
    client: { secret, nixl, ways: ["nixl", "tcp"] },
  });
  transferContract("from memory that is not registered: frames", {
    ...{ server, target: arena(), way: "bytes" },
    client: { secret, nixl, ways: ["nixl"] },
  });
  transferContract("where the owner has none", {
    ...{ server: { secret }, memory: arena(), target: arena(), way: "bytes" },
    client: { secret, nixl, ways: ["nixl"] },
  });

  const target = arena();
  const lies: readonly (readonly [string, string, (agent: NixlAgent) => readonly Buffer[]])[] = [
    ["a place before it says what it is", "corrupt", () => [remote(1000, 0)]],
    ["a description that is garbage", "timed_out", () => [agentFrame(randomBytes(400))]],
    ["an empty description", "timed_out", () => [agentFrame(new Uint8Array())]],
    [
      "memory that is not its",
      "failed",
      (agent) => [agentFrame(agent.metadata()), remote(1000, 0)],
    ],
    ["too few bytes", "corrupt", (agent) => [agentFrame(agent.metadata()), remote(999, 0)]],
    ["another piece", "corrupt", (agent) => [agentFrame(agent.metadata()), remote(1000, 7)]],
  ];
  test.for(lies)("[TR77] an owner that lies: %s", async ([, code, framesOf]) => {
    const agent = NixlAgent.open(nixl);
    const liar = await lyingOwner(secret, (socket) => {
      socket.write(Buffer.concat(framesOf(agent)));
    });
    const client = openTransferClient({ secret, nixl, ways: ["nixl"] });
    const whole = target(3000).fill(9);
    const read = client.read({
      peer: { host: "127.0.0.1", port: liar.port },
      offer: randomBytes(16).toString("hex"),
      pieces: [{ index: 0, into: [whole.subarray(1000, 2000)] }],
      deadlineMs: 700,
    });
    await expect(read).rejects.toMatchObject({ code });
    expect(whole.every((byte) => byte === 9)).toBe(true);
    await client.close();
    await agent.close();
    liar.close();
  });

  test("[TR77] what failed once goes another way from then on", async () => {
    const owner = await openTransferServer(server);
    const client = openTransferClient({ secret, nixl, ways: ["nixl"] });
    const source = arena()(100_000).fill(7);
    const into = target(100_000);
    const readOnce = async () => {
      const offer = owner.offer({ pieces: 1, pieceBytesMax: 100_000, deadlineMs: 5000 });
      offer.ready(0, [source]);
      const pieces = [{ index: 0, into: [into] }];
      await client.read({ peer: owner.address, offer: offer.id, pieces, deadlineMs: 5000 });
    };
    await readOnce();
    expect(owner.stats().pieces).toEqual({ bytes: 0, mapped: 0, nixl: 1 });
    const post = vi.spyOn(NixlAgent.prototype, "read").mockImplementation((_peer, _rows, done) => {
      queueMicrotask(() => done(false));
    });
    await expect(readOnce()).rejects.toMatchObject({ code: "failed" });
    post.mockRestore();
    into.fill(0);
    await readOnce();
    expect(into.every((byte) => byte === 7)).toBe(true);
    expect(owner.stats().pieces).toEqual({ bytes: 1, mapped: 0, nixl: 2 });
    await client.close();
    await owner.close();
  });

  test("[TR76] a library that is not there is told with the remedy", async () => {
    const wrong = { secret, nixl: "/nowhere/libnixl_capi.so" };
    await expect(openTransferServer(wrong)).rejects.toThrow(/Cannot load NIXL.*nixl-cu12/s);
    expect(() => openTransferClient(wrong)).toThrow(/Cannot load NIXL/);
  });
});
