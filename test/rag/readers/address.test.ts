import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { type AddressLimits, fetchAddress, isPublicAddress } from "#rag/readers";
import { chunksIn, folder, optionsFor, reportOf } from "../ingest/ingest-cases.ts";

/** A server of this machine; tells its port. */
async function serverOf(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<number> {
  const server = createServer(answer);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

function limitsOf(more: Partial<AddressLimits> = {}): AddressLimits {
  const resolve = async () => [{ address: "127.0.0.1", family: 4 }];
  return { privateHosts: [], bytesMax: 1000, seconds: 5, resolve, ...more };
}

const read = (address: string, limits: AddressLimits) =>
  fetchAddress(address, limits, new AbortController().signal);

describe("isPublicAddress", () => {
  it("[RG43] tells public addresses of the network from all others", () => {
    const others = [
      ...["0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254"],
      ...["172.16.0.1", "172.31.255.255", "192.168.0.1", "192.0.0.1", "198.18.0.1", "224.0.0.1"],
      ...["255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1"],
      ...["::ffff:10.0.0.1", "::ffff:8.8.8.8", "::ffff:7f00:1", "64:ff9b::a00:1", "ff02::1"],
      ...["2002:a00:1::", "2001:db8::1", "2001:0:a00:1::", "::10.0.0.1", "", "host", "1.2.3"],
    ];
    expect(others.filter(isPublicAddress)).toEqual([]);
    const all = ["8.8.8.8", "172.32.0.1", "93.184.216.34", "2606:4700::1111", "2a00:1450::1"];
    expect(all.filter(isPublicAddress)).toEqual(all);
  });
});

describe("fetchAddress", () => {
  it("[RG43] refuses private addresses in every spelling, without connecting", async () => {
    let connections = 0;
    const port = await serverOf((_, response) => {
      connections++;
      response.end("secret");
    });
    const hosts = ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "[::1]", "[::ffff:127.0.0.1]"];
    for (const host of [...hosts, "localhost", "public.test", "[::ffff:7f00:1]", "0"]) {
      await expect(read(`http://${host}:${port}/`, limitsOf()), host).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
        message: expect.stringContaining("must be public"),
      });
    }
    expect(connections).toBe(0);
  });

  it("[RG43] refuses a host of which any address is private", async () => {
    const resolve = async () => [
      { address: "93.184.216.34", family: 4 },
      { address: "10.0.0.1", family: 4 },
    ];
    const call = read("http://public.test/", limitsOf({ resolve }));
    await expect(call).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  it("[RG43] resolves a host once, and connects to what it looked at", async () => {
    const port = await serverOf(({ headers }, response) => response.end(headers.host));
    const asked: string[] = [];
    const resolve = async (host: string) => {
      asked.push(host);
      return [{ address: "127.0.0.1", family: 4 }];
    };
    const privateHosts = [`rebinding.invalid:${port}`];
    const page = await read(
      `http://rebinding.invalid:${port}/a`,
      limitsOf({ resolve, privateHosts }),
    );
    expect(Buffer.from(page.bytes).toString()).toBe(`rebinding.invalid:${port}`);
    expect(asked).toEqual(["rebinding.invalid"]);
  });

  it("[RG43] looks at the host of each redirect, and follows a bounded number", async () => {
    const seen: string[] = [];
    const port = await serverOf(({ url = "" }, response) => {
      seen.push(url);
      const hops = /^\/hops\/(\d+)/.exec(url)?.[1];
      if (hops === "0") response.end("there");
      else if (hops !== undefined) redirect(response, `/hops/${Number(hops) - 1}`);
      else if (url === "/inside") redirect(response, `http://127.0.0.1:${port}/secret`);
      else if (url === "/file") redirect(response, "file:///etc/passwd");
      else response.end("secret");
    });
    const host = `public.test:${port}`;
    const limits = limitsOf({ privateHosts: [host] });
    const { bytes, url } = await read(`http://${host}/hops/5`, limits);
    expect(Buffer.from(bytes).toString()).toBe("there");
    expect(url.pathname).toBe("/hops/0");
    const refused = { code: "INVALID_ARGUMENT" };
    await expect(read(`http://${host}/hops/6`, limits)).rejects.toMatchObject(refused);
    await expect(read(`http://${host}/inside`, limits)).rejects.toMatchObject(refused);
    await expect(read(`http://${host}/file`, limits)).rejects.toMatchObject(refused);
    expect(seen).not.toContain("/secret");
  });

  it("[RG43] bounds bytes and time, and refuses what was compressed or is no answer", async () => {
    const port = await serverOf(({ url }, response) => {
      if (url === "/long") response.end(Buffer.alloc(1001));
      else if (url === "/endless") response.write("a");
      else if (url === "/gzip") response.setHeader("content-encoding", "gzip").end("x");
      else if (url === "/gone") response.writeHead(410).end();
      else response.destroy();
    });
    const host = `public.test:${port}`;
    const failure = (path: string, seconds = 30) =>
      read(`http://${host}${path}`, limitsOf({ privateHosts: [host], seconds })).catch(
        (error: { code: string }) => error.code,
      );
    expect(await failure("/long")).toBe("INVALID_ARGUMENT");
    expect(await failure("/gzip")).toBe("INVALID_ARGUMENT");
    expect(await failure("/endless", 0.3)).toBe("NETWORK");
    expect(await failure("/gone")).toBe("NETWORK");
    expect(await failure("/broken")).toBe("NETWORK");
  });
});

describe("ingest", () => {
  it("[RG43] reads addresses where they are allowed, by the type that the server says", async () => {
    const port = await serverOf((_, response) => {
      response.setHeader("content-type", "text/html; charset=utf-8").end("<h1>Top</h1><p>text");
    });
    const base = folder({ "a.md": "text" });
    const url = `http://127.0.0.1:${port}/page?x=1`;
    const options = optionsFor(base);
    const refused = { code: "INVALID_ARGUMENT", param: "addresses" };
    await expect(reportOf([url], options)).rejects.toMatchObject(refused);
    const closed = await reportOf([url], { ...options, addresses: {} });
    expect(closed.failures).toMatchObject([
      { id: url, reason: expect.stringMatching("be public") },
    ]);
    const addresses = { privateHosts: [`127.0.0.1:${port}`] };
    const report = await reportOf([".", `${url}#part`], { ...options, addresses });
    expect(report).toMatchObject({ stored: 2, failed: 0 });
    expect(await chunksIn(options.store)).toMatchObject([
      { documentId: "a.md" },
      { documentId: url, text: "text", place: { headings: ["Top"] }, attributes: { kind: "html" } },
    ]);
    expect(await reportOf(["."], options)).toMatchObject({ removed: 0, unchanged: 1 });
  });
});

function redirect(response: ServerResponse, location: string): void {
  response.writeHead(302, { location }).end();
}
