import { describe, expect, it } from "vitest";
import { EngineError } from "#base";
import { openStore } from "#rag/stores";
import { isMilvusAddress, parseMilvusAddress } from "../../../src/rag/stores/milvus-address.ts";

describe("an address of a Milvus server", () => {
  it("[RG21] says all that it may say", () => {
    const url =
      "milvus://ada:p%40ss%2Fword@db.example:1234/corpora?tls=true&token=a%3Ab&consistency=bounded" +
      "&timeoutMs=500&ca=%2Fetc%2Fca.pem&serverName=inner";
    expect(parseMilvusAddress(url)).toEqual({
      address: "db.example:1234",
      user: "ada",
      password: "p@ss/word",
      token: "a:b",
      database: "corpora",
      hasTls: true,
      authorityPath: "/etc/ca.pem",
      serverName: "inner",
      consistency: "Bounded",
      timeoutMs: 500,
      location: "milvus://db.example:1234/corpora",
    });
  });

  it("[RG21] has the usual port, no TLS but with https, and strong consistency", () => {
    expect(parseMilvusAddress("milvus://localhost")).toMatchObject({
      address: "localhost:19530",
      hasTls: false,
      database: null,
      token: null,
      consistency: "Strong",
    });
    expect(parseMilvusAddress("https://in03-abc.api.gcp-us-west1.zillizcloud.com")).toMatchObject({
      address: "in03-abc.api.gcp-us-west1.zillizcloud.com:443",
      hasTls: true,
    });
    expect(parseMilvusAddress("http://[::1]:19530").address).toBe("[::1]:19530");
  });

  it.each([
    "milvus://localhost?tls=yes",
    "milvus://localhost?tsl=true",
    "milvus://localhost?consistency=Maybe",
    "milvus://localhost?timeoutMs=-1",
    "milvus://localhost/a%20b",
    "milvus://localhost/a%ZZ",
    "milvus://local host",
    "milvus://",
  ])("[RG21] that is wrong is refused without its secrets: %s", async (url) => {
    const secret = url.replace("//", "//user:geheim@");
    const error = await openStore(secret).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(EngineError);
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(String(error)).not.toContain("geheim");
  });

  it("[RG21] is told from a folder", () => {
    for (const path of ["store", "./milvus", "C:\\store", "/data/milvus:x", "milvus:store"]) {
      expect(isMilvusAddress(path)).toBe(false);
    }
  });
});
