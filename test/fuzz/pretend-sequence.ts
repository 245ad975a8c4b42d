/** What a sequence of the fuzz has computed, and what must be in each of its positions. */
import { IntList } from "#base";
import { BlockTable, type ContentKeys } from "#kvcache";

const PLACEHOLDER = 9;

/** A prompt and what tells its contents apart. */
export interface PretendPrompt {
  readonly scope: string;
  readonly keys: ContentKeys | null;
  readonly tokens: readonly number[];
}

/** A live sequence: tokens that are known, and how many of them are computed. */
export class PretendSequence {
  readonly table: BlockTable;
  readonly tokens: IntList;
  /** digests[i]: for everything that the keys and values of position i depend on. */
  readonly digests: number[] = [];
  computed = 0;
  /** Its step failed: nothing says what its blocks have. */
  isVoid = false;
  /** A step that failed took back what it made known, of these contents maybe. */
  mayBeForgotten = false;

  constructor({ scope, keys, tokens }: PretendPrompt) {
    this.table = new BlockTable(scope, keys);
    this.tokens = new IntList();
    for (const token of tokens) this.push(token);
  }

  /** One more token is known. Inside an item it is a placeholder, which no text has. */
  push(text: number): void {
    const { scope, keys } = this.table;
    const position = this.tokens.length;
    const before = this.digests.at(-1) ?? digestOf([...scope].map((c) => c.charCodeAt(0)));
    const item = keys?.items?.find(
      ({ start, length }) => position >= start && position < start + length,
    );
    const image = item === undefined ? 0 : Number.parseInt(item.hash.slice(0, 6), 16) + 1;
    const offset = item === undefined ? 0 : position - item.start;
    const token = item === undefined ? text : PLACEHOLDER;
    this.tokens.push(token);
    const extra = keys?.extraIds?.[position] ?? 0;
    this.digests.push(digestOf([token, extra, image, offset], before));
  }

  /** The same tokens in a table of its own, which has no blocks. */
  twin(): PretendSequence {
    const twin = new PretendSequence(this.prompt());
    twin.computed = this.computed;
    twin.mayBeForgotten = this.mayBeForgotten;
    return twin;
  }

  prompt(): PretendPrompt {
    const { scope, keys } = this.table;
    return { scope, keys, tokens: [...this.tokens.view()] };
  }
}

/** The digest of a position in the blocks of one of up to four groups of layers. */
export function digestIn(digest: number, group: number): number {
  const own = group < 2 ? digest : digest + 2 ** 52;
  return group % 2 === 0 ? own : -own;
}

/** 52 bits of what came before and these integers. */
function digestOf(values: readonly number[], before = 1): number {
  let high = Math.floor(before / 2 ** 26) | 0;
  let low = (before % 2 ** 26) | 0;
  for (const value of values) {
    high = Math.imul(high ^ value, 0x85ebca6b) ^ (low >>> 13);
    low = Math.imul(low + value + 1, 0xc2b2ae35) ^ (high >>> 16);
  }
  return ((high >>> 6) * 2 ** 26 + (low >>> 6)) % 2 ** 52;
}
