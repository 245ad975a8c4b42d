/** EAGLE-3's network in plain numbers, as its publication has it: an entry for each hidden state. */
import type { Checkpoint } from "#checkpoint";
import type { Eagle3Spec } from "#models";
import { decodeFloats } from "#tensor";

type Files = Pick<Checkpoint, "tensors" | "integers"> & { readonly baseTokens: Float32Array };
type Vector = readonly number[];

interface Entry {
  readonly key: readonly Vector[];
  readonly value: readonly Vector[];
}

export class PlainEagle3 {
  readonly #spec: Eagle3Spec;
  readonly #files: Files;

  constructor(spec: Eagle3Spec, files: Files) {
    this.#spec = spec;
    this.#files = files;
  }

  /** The chain behind `count` tokens of a text and the root, from its token of `rank` on. */
  draft(
    { tokens, states }: { readonly tokens: Int32Array; readonly states: readonly Float32Array[] },
    count: number,
    root: number,
    length: number,
    rank = 0,
  ): number[] {
    const next = [...tokens.subarray(1, count), root];
    const entries: Entry[] = [];
    let hidden: Vector = [];
    for (const [place, token] of next.entries()) {
      hidden = this.#fused(states, place);
      // The last one is computed again below.
      if (place < next.length - 1) entries.push(this.#entry(token, hidden, place));
    }
    const chain: number[] = [];
    let token = root;
    for (let level = 0; level < length; level++) {
      const place = next.length - 1 + level;
      entries.push(this.#entry(token, hidden, place));
      const out = this.#layer(token, hidden, { place, entries });
      const normed = this.#norm("norm", out);
      const logits = this.#linear("lm_head", normed);
      const order = [...logits.keys()].sort((a, b) => (logits[b] ?? 0) - (logits[a] ?? 0));
      const best = order[level === 0 ? rank : 0] ?? 0;
      const map = this.#files.integers.get("d2t")?.values();
      token = best + (map?.[best] ?? 0);
      chain.push(token);
      hidden = this.#spec.normOutput ? normed : out;
    }
    return chain;
  }

  #fused(states: readonly Float32Array[], place: number): Vector {
    const { baseHiddenSize: size, inputNorm } = this.#spec;
    const parts = states.map((values, tap) => {
      const part = [...values.subarray(place * size, (place + 1) * size)];
      return inputNorm === "each" ? this.#norm(`fc_norm.${tap}`, part) : part;
    });
    const joined = parts.flat();
    return this.#linear("fc", inputNorm === "joined" ? this.#norm("input_norm", joined) : joined);
  }

  #inputs(token: number, hidden: Vector): Vector {
    const { hiddenSize } = this.#spec;
    const own = this.#find("embed_tokens.weight") ?? this.#files.baseTokens;
    const embedding = [...own.subarray(token * hiddenSize, (token + 1) * hiddenSize)];
    return [
      ...this.#norm("layer.input_layernorm", embedding),
      ...this.#norm("layer.hidden_norm", hidden),
    ];
  }

  #entry(token: number, hidden: Vector, place: number): Entry {
    const inputs = this.#inputs(token, hidden);
    const { kvHeads } = this.#spec;
    const keys = inParts(this.#linear("layer.self_attn.k_proj", inputs), kvHeads);
    const value = inParts(this.#linear("layer.self_attn.v_proj", inputs), kvHeads);
    const normed = keys.map((key) => this.#headNorm("layer.self_attn.k_norm", key));
    return { key: normed.map((key) => this.#rotated(key, place)), value };
  }

  #layer(
    token: number,
    hidden: Vector,
    { place, entries }: { readonly place: number; readonly entries: readonly Entry[] },
  ): Vector {
    const { heads, kvHeads, headDim, normBeforeResidual } = this.#spec;
    const inputs = this.#inputs(token, hidden);
    const queries = inParts(this.#linear("layer.self_attn.q_proj", inputs), heads);
    const attended = queries.flatMap((query, head) => {
      const normed = this.#headNorm("layer.self_attn.q_norm", query);
      const rotated = this.#rotated(normed, place);
      const kvHead = Math.floor((head * kvHeads) / heads);
      const scores = entries.map(({ key }) => dot(rotated, key[kvHead] ?? []) / Math.sqrt(headDim));
      const most = Math.max(...scores);
      const weights = scores.map((score) => Math.exp(score - most));
      const sum = weights.reduce((total, weight) => total + weight, 0);
      return Array.from({ length: headDim }, (_, at) =>
        entries.reduce(
          (total, { value }, entry) =>
            total + ((weights[entry] ?? 0) / sum) * (value[kvHead]?.[at] ?? 0),
          0,
        ),
      );
    });
    const residual = normBeforeResidual ? this.#norm("layer.hidden_norm", hidden) : hidden;
    const x = plus(residual, this.#linear("layer.self_attn.o_proj", attended));
    const input = this.#norm("layer.post_attention_layernorm", x);
    const gate = this.#linear("layer.mlp.gate_proj", input);
    const up = this.#linear("layer.mlp.up_proj", input);
    const activated = gate.map((value, at) => (value / (1 + Math.exp(-value))) * (up[at] ?? 0));
    return plus(x, this.#linear("layer.mlp.down_proj", activated));
  }

  #rotated(head: Vector, place: number): Vector {
    const half = head.length / 2;
    const { theta } = this.#spec.rope;
    return head.map((value, at) => {
      const angle = place * theta ** (-(at % half) / half);
      const other = at < half ? -(head[at + half] ?? 0) : (head[at - half] ?? 0);
      return value * Math.cos(angle) + other * Math.sin(angle);
    });
  }

  #headNorm(name: string, head: Vector): Vector {
    return this.#spec.queryKeyNorm ? this.#norm(name, head) : head;
  }

  #norm(name: string, x: Vector): Vector {
    const weight = this.#values(`${name}.weight`);
    const scale = 1 / Math.sqrt(dot(x, x) / x.length + this.#spec.normEpsilon);
    return x.map((value, at) => value * scale * (weight[at] ?? 0));
  }

  #linear(name: string, x: Vector): Vector {
    const weight = this.#values(`${name}.weight`);
    const bias = this.#find(`${name}.bias`);
    return Array.from({ length: weight.length / x.length }, (_, row) =>
      x.reduce(
        (sum, value, at) => sum + value * (weight[row * x.length + at] ?? 0),
        bias?.[row] ?? 0,
      ),
    );
  }

  #values(name: string): Float32Array {
    const found = this.#find(name);
    if (found === null) throw new Error(`no ${name}`);
    return found;
  }

  #find(name: string): Float32Array | null {
    const { tensors } = this.#files;
    const names = ["midlayer.", "layers.0.", "model.layers.0."].map((layer) =>
      name.replace("layer.", layer),
    );
    const all = name.startsWith("layer.") ? names : [name, `model.${name}`];
    const found = all.map((one) => tensors.get(one)).find((one) => one !== undefined);
    return found === undefined ? null : decodeFloats(found.bytes(), found.dtype);
  }
}

function inParts(values: Vector, count: number): Vector[] {
  const size = values.length / count;
  return Array.from({ length: count }, (_, part) => values.slice(part * size, (part + 1) * size));
}

function dot(one: Vector, other: Vector): number {
  return one.reduce((sum, value, at) => sum + value * (other[at] ?? 0), 0);
}

function plus(one: Vector, other: Vector): Vector {
  return one.map((value, at) => value + (other[at] ?? 0));
}
