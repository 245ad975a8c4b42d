import type { WorkerInfo } from "#cluster";

/** A worker that tests follow: blocks of 4 tokens, one group of layers. */
export function workerInfo(changes: Partial<WorkerInfo> = {}): WorkerInfo {
  return {
    id: "worker-1",
    epoch: "1",
    url: "http://127.0.0.1:9",
    kind: "perigee",
    version: "0.1.0",
    models: ["toy"],
    fingerprint: null,
    contextTokensMax: 4096,
    kv: { blockTokens: 4, blocks: [160, 80], groupWindows: [null] },
    ...changes,
  };
}
