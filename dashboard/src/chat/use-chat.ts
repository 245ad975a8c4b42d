import { useRef, useState } from "preact/hooks";
import { streamAnswer } from "./answer-stream.ts";
import {
  type Attachment,
  addTurn,
  type Conversation,
  changeTurn,
  EMPTY,
  pathTo,
  type Turn,
} from "./conversation.ts";
import { bodyOf, type ChatSettings } from "./settings.ts";

/** A conversation, and what can be done with it. */
export interface Chat {
  readonly conversation: Conversation;
  /** The turn that is being answered; null: none. */
  readonly answering: number | null;
  set(conversation: Conversation): void;
  /** Says something behind a turn, and asks for an answer. */
  say(parent: number | null, content: string, files: readonly Attachment[]): void;
  /** Answers a tool call, and asks for an answer once all are answered. */
  answerTool(turn: Turn, callId: string, content: string): void;
  /** Asks for another answer to the same. */
  again(turn: Turn): void;
  stop(): void;
}

/** `settings` are read when a request is sent. */
export function useChat(settings: ChatSettings): Chat {
  const [conversation, setConversation] = useState<Conversation>(EMPTY);
  const [answering, setAnswering] = useState<number | null>(null);
  const newest = useRef(conversation);
  const stop = useRef<AbortController | null>(null);
  const set = (next: Conversation) => {
    newest.current = next;
    setConversation(next);
  };
  const ask = async (parent: number) => {
    const added = addTurn(newest.current, { parent, role: "assistant" });
    set(added.conversation);
    setAnswering(added.id);
    const controller = new AbortController();
    stop.current = controller;
    const change = (part: Partial<Turn>) => set(changeTurn(newest.current, added.id, part));
    try {
      const body = bodyOf(settings, pathTo(newest.current, parent));
      await streamAnswer(body, controller.signal, change);
    } catch (error) {
      const isStopped = controller.signal.aborted;
      if (isStopped) change({ finishReason: "stopped" });
      else change({ error: error instanceof Error ? error.message : String(error) });
    } finally {
      if (stop.current === controller) stop.current = null;
      setAnswering(null);
    }
  };
  return {
    ...{ conversation, answering, set },
    say: (parent, content, files) => {
      const added = addTurn(newest.current, { parent, role: "user", content, files });
      set(added.conversation);
      void ask(added.id);
    },
    answerTool: (turn, callId, content) => {
      const path = answersBehind(newest.current, turn);
      const parent = path.at(-1)?.id ?? turn.id;
      const more = { parent, role: "tool", content, toolCallId: callId } as const;
      const added = addTurn(newest.current, more);
      set(added.conversation);
      if (path.length + 1 >= turn.toolCalls.length) void ask(added.id);
    },
    again: (turn) => {
      if (turn.parent !== null) void ask(turn.parent);
    },
    stop: () => stop.current?.abort(),
  };
}

/** Answers of tools that follow a turn on its branch. */
export function answersBehind({ turns, chosen }: Conversation, turn: Turn): readonly Turn[] {
  const answers: Turn[] = [];
  for (let parent = turn.id; answers.length <= turns.length; ) {
    const next = turns.find((other) => other.parent === parent && chosen[parent] === other.id);
    if (next?.role !== "tool") break;
    answers.push(next);
    parent = next.id;
  }
  return answers;
}
