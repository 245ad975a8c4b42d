import { cacheModesContract } from "../contracts/engine-parity/cache-modes.ts";

cacheModesContract({ device: "reference", together: ["llama"], apart: [], varied: [] });
