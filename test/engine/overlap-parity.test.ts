/** Steps that start before the ones before them end bring the same tokens. */

import { cacheModesContract } from "../contracts/engine-parity/cache-modes.ts";
import { engineParityContract } from "../contracts/engine-parity.ts";

engineParityContract("cpu", {}, true);
cacheModesContract({
  device: "cpu",
  overlapSteps: true,
  together: ["mistral-sliding-window"],
  apart: ["llama"],
  varied: [],
});
