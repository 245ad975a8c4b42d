import { expect, test } from "vitest";
import { readRedisAddress } from "#cluster/redis";

const CONNECTION = {
  connectTimeout: 1000,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  retryStrategy: () => 1000,
  lazyConnect: true,
};

/** What the library is told. */
function optionsOf(url: string) {
  const client = readRedisAddress(url).open(CONNECTION);
  client.on("error", () => {});
  client.disconnect();
  const { sentinels, name, username, password, db, tls, sentinelUsername } = client.options;
  const { sentinelPassword, sentinelTLS, host, port } = client.options;
  const access = { username, password, sentinelUsername, sentinelPassword };
  return { sentinels, name, db, tls, sentinelTLS, host, port, ...access };
}

test("[CL152] sentinels, their master and all passwords are read", () => {
  const text =
    "redis+sentinel://us%3Aer:p%40ss:1@10.0.0.1,[::1]:5000,sen-two:6000/my.master_1/3" +
    "?sentinel_username=a&sentinel_password=b%26c";
  expect(optionsOf(text)).toMatchObject({
    sentinels: [
      { host: "10.0.0.1", port: 26379 },
      { host: "::1", port: 5000 },
      { host: "sen-two", port: 6000 },
    ],
    ...{ name: "my.master_1", db: 3, username: "us:er", password: "p@ss:1" },
    ...{ sentinelUsername: "a", sentinelPassword: "b&c" },
  });
  expect(readRedisAddress(text).place).toBe(
    "10.0.0.1,[::1]:5000,sen-two:6000 (master my.master_1)",
  );
});

test("[CL152] user, password and database may be absent; rediss is TLS to all", () => {
  const plain = optionsOf("redis+sentinel://a:1/m");
  expect([plain.username ?? null, plain.password ?? null, plain.db]).toEqual([null, null, 0]);
  expect(optionsOf("redis+sentinel://:pw@a:1/m")).toMatchObject({ password: "pw" });
  expect(optionsOf("rediss+sentinel://a:1/m")).toMatchObject({ tls: {}, sentinelTLS: {} });
  expect(optionsOf("redis://:pw@a:1/2")).toMatchObject({ host: "a", port: 1, password: "pw" });
});

test.each([
  ...["redis+sentinel://", "redis+sentinel:///m", "redis+sentinel://a:1", "redis+sentinel://a:1/"],
  ...["redis+sentinel://a:1,,b:2/m", "redis+sentinel://a:x/m", "redis+sentinel://a:99999/m"],
  ...["redis+sentinel://a:0/m", "redis+sentinel://secret@a:1@/m", "redis+sentinel://a:1/m n"],
  ...[
    "redis+sentinel://:%zz-secret@a:1/m",
    "redis+sentinel://a:1/m/x",
    "redis+sentinel://a:1/m/1/2",
  ],
  ...["redis+sentinel://a:1/m?password=secret", "http+sentinel://a:1/m", "sentinel://secret@a/m"],
  `redis+sentinel://${Array.from({ length: 33 }, (_, at) => `a:${at + 1}`).join(",")}/m`,
  `redis+sentinel://a:1/${"m".repeat(201)}`,
])("[CL152] %j is no address of sentinels, and is not repeated", (url) => {
  expect(() => readRedisAddress(url)).toThrow(
    /^Cannot use Redis: redis must be an address such as/,
  );
  expect(() => readRedisAddress(url)).not.toThrow(/secret/);
});
