/** A conversation with branches: a tree of turns, and of each turn the branch that is shown. */

/** Largest conversation that is imported, in turns. */
export const TURNS_MAX = 2000;

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON, as the model wrote it. */
  readonly arguments: string;
}

/** A file whose text goes with a message. */
export interface Attachment {
  readonly name: string;
  readonly text: string;
}

export interface Citation {
  readonly filename: string;
  readonly fileId: string;
}

/** What the server said about a turn, and how long it took. */
export interface TurnStats {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Null: nothing was drafted. */
  readonly accepted: number | null;
  readonly rejected: number | null;
  readonly firstTokenMs: number | null;
  readonly wholeMs: number;
}

export interface Turn {
  readonly id: number;
  /** The turn before it; null: it begins the conversation. */
  readonly parent: number | null;
  readonly role: "user" | "assistant" | "tool";
  readonly content: string;
  readonly files: readonly Attachment[];
  readonly toolCalls: readonly ToolCall[];
  /** Of a tool's answer: the call that it answers. */
  readonly toolCallId: string | null;
  readonly citations: readonly Citation[];
  readonly stats: TurnStats | null;
  readonly finishReason: string | null;
  readonly error: string | null;
}

export interface Conversation {
  readonly turns: readonly Turn[];
  /** By turn, `root` for the beginning: the one that follows it on the shown branch. */
  readonly chosen: Readonly<Record<string, number>>;
}

export const EMPTY: Conversation = { turns: [], chosen: {} };

const NO_MORE = {
  ...{ content: "", files: [], toolCalls: [], toolCallId: null, citations: [] },
  ...{ stats: null, finishReason: null, error: null },
} as const;

/** Adds a turn behind another one, and shows it. */
export function addTurn(
  conversation: Conversation,
  turn: Partial<Turn> & Pick<Turn, "parent" | "role">,
): { readonly conversation: Conversation; readonly id: number } {
  const id = Math.max(0, ...conversation.turns.map((other) => other.id)) + 1;
  const turns = [...conversation.turns, { ...NO_MORE, ...turn, id }];
  return { conversation: choose({ ...conversation, turns }, id), id };
}

/** Replaces parts of a turn. */
export function changeTurn(
  conversation: Conversation,
  id: number,
  change: Partial<Turn>,
): Conversation {
  const turns = conversation.turns.map((turn) =>
    turn.id === id ? { ...turn, ...change, id } : turn,
  );
  return { ...conversation, turns };
}

/** Shows the branch that a turn begins. */
export function choose(conversation: Conversation, id: number): Conversation {
  const turn = conversation.turns.find((other) => other.id === id);
  if (turn === undefined) return conversation;
  return { ...conversation, chosen: { ...conversation.chosen, [slot(turn.parent)]: id } };
}

/** The shown turns, the first one first. */
export function shownPath({ turns, chosen }: Conversation): readonly Turn[] {
  const path: Turn[] = [];
  for (let parent: number | null = null; path.length <= turns.length; ) {
    const followers = turns.filter((turn) => turn.parent === parent);
    const next = followers.find(({ id }) => id === chosen[slot(parent)]) ?? followers.at(-1);
    if (next === undefined) break;
    path.push(next);
    parent = next.id;
  }
  return path;
}

/** The turns up to one, that one included. */
export function pathTo({ turns }: Conversation, id: number | null): readonly Turn[] {
  const path: Turn[] = [];
  for (let at = id; at !== null && path.length <= turns.length; ) {
    const turn = turns.find((other) => other.id === at);
    if (turn === undefined) break;
    path.unshift(turn);
    at = turn.parent;
  }
  return path;
}

/** All turns behind the same one: branches. */
export function branchesOf(
  { turns }: Conversation,
  { parent }: Pick<Turn, "parent">,
): readonly Turn[] {
  return turns.filter((turn) => turn.parent === parent);
}

function slot(parent: number | null): string {
  return parent === null ? "root" : String(parent);
}

/** For a file that `fromJson` reads. */
export function toJson(conversation: Conversation, system: string): string {
  return JSON.stringify({ format: "perigee-chat", version: 1, system, ...conversation }, null, 2);
}

/** Reads a file of `toJson`. Throws an Error that says what is wrong. */
export function fromJson(text: string): {
  readonly conversation: Conversation;
  readonly system: string;
} {
  const file = record(parsed(text), "the file");
  if (file.format !== "perigee-chat") throw new Error("It is no conversation of this page");
  if (!Array.isArray(file.turns)) throw new Error("turns must be a list");
  if (file.turns.length > TURNS_MAX) throw new Error(`It has more than ${TURNS_MAX} turns`);
  const turns = file.turns.map(readTurn);
  const ids = new Set<number>();
  for (const { id, parent } of turns) {
    if (ids.has(id)) throw new Error(`Turn ${id} is there twice`);
    if (parent !== null && !ids.has(parent)) throw new Error(`Turn ${id} follows an unknown one`);
    ids.add(id);
  }
  const chosen = Object.fromEntries(
    Object.entries(record(file.chosen ?? {}, "chosen")).filter(
      (entry): entry is [string, number] => typeof entry[1] === "number" && ids.has(entry[1]),
    ),
  );
  return { conversation: { turns, chosen }, system: stringOf(file.system ?? "", "system") };
}

function readTurn(value: unknown): Turn {
  const turn = record(value, "a turn");
  const { id, parent, role } = turn;
  if (!isId(id)) throw new Error("A turn must have a number");
  if (parent !== null && !isId(parent)) throw new Error(`Turn ${id} must follow a turn, or null`);
  if (role !== "user" && role !== "assistant" && role !== "tool") {
    throw new Error(`Turn ${id} must be of user, assistant or tool`);
  }
  return {
    ...{ id, parent, role },
    content: stringOf(turn.content, "content"),
    files: list(turn.files).map((file) => ({
      name: stringOf(record(file, "a file").name, "name"),
      text: stringOf(record(file, "a file").text, "text"),
    })),
    toolCalls: list(turn.toolCalls).map((call) => ({
      id: stringOf(record(call, "a tool call").id, "id"),
      name: stringOf(record(call, "a tool call").name, "name"),
      arguments: stringOf(record(call, "a tool call").arguments, "arguments"),
    })),
    toolCallId: typeof turn.toolCallId === "string" ? turn.toolCallId : null,
    citations: list(turn.citations).map((citation) => ({
      filename: stringOf(record(citation, "a citation").filename, "filename"),
      fileId: stringOf(record(citation, "a citation").fileId, "fileId"),
    })),
    stats: readStats(turn.stats),
    finishReason: typeof turn.finishReason === "string" ? turn.finishReason : null,
    error: typeof turn.error === "string" ? turn.error : null,
  };
}

function readStats(value: unknown): TurnStats | null {
  if (value === null || value === undefined) return null;
  const stats = record(value, "stats");
  const number = (name: string) => (typeof stats[name] === "number" ? stats[name] : 0);
  const optional = (name: string) => (typeof stats[name] === "number" ? stats[name] : null);
  return {
    promptTokens: number("promptTokens"),
    cachedTokens: number("cachedTokens"),
    completionTokens: number("completionTokens"),
    accepted: optional("accepted"),
    rejected: optional("rejected"),
    firstTokenMs: optional("firstTokenMs"),
    wholeMs: number("wholeMs"),
  };
}

function isId(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function stringOf(value: unknown, name: string): string {
  if (typeof value !== "string") throw new Error(`${name} must be text`);
  return value;
}

function record(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw new Error(`${name} must be an object`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("It is no JSON");
  }
}
