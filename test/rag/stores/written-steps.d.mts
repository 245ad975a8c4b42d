import type { VectorStore } from "#rag/stores";

export const steps: number;
export function write(store: VectorStore, step: number): Promise<unknown>;
