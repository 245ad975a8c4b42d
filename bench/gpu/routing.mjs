// Which experts the routers of a model choose, by device: where two devices choose otherwise, their
// logits are those of different models from there on.

/** Records what routers say on a device: [rows][experts] of each layer with experts. */
export class RoutingRecord {
  #layers = null;

  constructor(device) {
    const { mixtureOfExperts } = device;
    device.mixtureOfExperts = (input) => {
      // What is read is of now, though it is handed over later.
      this.#layers?.push({ input, logits: device.readF32(input.routerLogits) });
      mixtureOfExperts.call(device, input);
    };
  }

  /** From here on, until `take`. Steps in between must not be such that a graph is made of them. */
  start() {
    this.#layers = [];
  }

  /** What was recorded, in the order of layers. */
  async take() {
    const layers = this.#layers;
    this.#layers = null;
    return Promise.all(layers.map(layerOf));
  }
}

/** By row: the experts that are chosen, and how far the last one is ahead of the first refused. */
async function layerOf({ input, logits }) {
  const { count, gateUp, expertsPerToken } = input;
  const flat = await logits;
  return Array.from({ length: count }, (_, row) => {
    const values = flat.subarray(row * gateUp.length, (row + 1) * gateUp.length);
    const order = [...values.keys()].sort((a, b) => values[b] - values[a] || a - b);
    const [last, refused] = [order[expertsPerToken - 1], order[expertsPerToken]];
    const margin =
      refused === undefined ? Number.POSITIVE_INFINITY : values[last] - values[refused];
    return {
      chosen: order
        .slice(0, expertsPerToken)
        .sort((a, b) => a - b)
        .join(),
      margin,
    };
  });
}

/**
 * Two devices' layers of one sequence: the row from which on they are different models, and the
 * margin in `exact` of the choice that was first made otherwise. Tokens see those before them, so
 * nothing behind that row can be compared. Null where all choices are the same.
 */
export function firstOtherChoice(exact, rounded) {
  const rows = exact[0]?.length ?? 0;
  for (let row = 0; row < rows; row++) {
    const layer = exact.findIndex((each, i) => each[row].chosen !== rounded[i][row].chosen);
    if (layer >= 0) return { row, margin: exact[layer][row].margin };
  }
  return null;
}
