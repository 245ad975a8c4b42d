/**
 * Agents that work on tasks with tools, as those that write code: long prompts that grow by results
 * of tools, short outputs, little time between calls, sub-agents with contexts of their own.
 */
import { Conversation } from "./conversation.ts";
import { type Amount, Draws } from "./draws.ts";
import { type Traffic, type TrafficPiece, type TrafficRequest, trafficOf } from "./traffic.ts";

export interface Agents {
  readonly seed: number;
  /** Tasks, each of one agent. */
  readonly tasks: number;
  /** New tasks, Poisson's. */
  readonly perSecond: number;
  /** Kinds of agents: each has its instructions and tools, equal for all tasks of the kind. */
  readonly kinds: number;
  readonly systemTokens: number;
  /** What a task is about: the user's words, rules and files of the project. */
  readonly taskTokens: Amount;
  /** Mean calls of the model in a task, which ends by chance. */
  readonly calls: number;
  readonly outputTokens: Amount;
  readonly resultTokens: Amount;
  /** A tool's work, before the next call. */
  readonly toolSeconds: Amount;
  /** Share of calls after which a user is asked, and how long that takes. */
  readonly userShare: number;
  readonly userSeconds: Amount;
  /** Share of calls that give a part of the task to a sub-agent, and wait for its report. */
  readonly subAgentShare: number;
  readonly subAgentCalls: number;
  /** A sub-agent's instructions, equal for all. */
  readonly subAgentTokens: number;
  readonly briefTokens: Amount;
  readonly reportTokens: number;
  /** A longer context is summed up, and goes on from the summary. */
  readonly contextTokensMax: number;
  readonly summaryTokens: number;
}

export const AGENTS: Agents = {
  ...{ seed: 1, tasks: 60, perSecond: 0.25, kinds: 3, systemTokens: 12_000 },
  taskTokens: { median: 2500, spread: 0.8, most: 20_000 },
  calls: 30,
  outputTokens: { median: 200, spread: 0.9, most: 4000 },
  resultTokens: { median: 500, spread: 1.3, most: 12_000 },
  toolSeconds: { median: 1.5, spread: 1.2, most: 120 },
  userShare: 0.04,
  userSeconds: { median: 45, spread: 1, most: 600 },
  ...{ subAgentShare: 0.05, subAgentCalls: 8, subAgentTokens: 6000 },
  briefTokens: { median: 600, spread: 0.6, most: 4000 },
  reportTokens: 800,
  ...{ contextTokensMax: 100_000, summaryTokens: 3000 },
};

const SYSTEM_NAMES = 6;
const SUB_AGENT_NAMES = 7;
const OTHER_NAMES = 8;

export function agents(settings: Partial<Agents> = {}): Traffic {
  const all = { ...AGENTS, ...settings };
  const draws = new Draws(all.seed);
  const maker = new AgentMaker(all, draws);
  let startMs = 0;
  for (let task = 0; task < all.tasks; task++) {
    startMs += draws.gapMs(all.perSecond);
    maker.work(`task-${task}`, startMs);
  }
  return trafficOf("agents", maker.requests);
}

class AgentMaker {
  readonly requests: TrafficRequest[] = [];
  readonly #settings: Agents;
  readonly #draws: Draws;
  #names = 0;

  constructor(settings: Agents, draws: Draws) {
    this.#settings = settings;
    this.#draws = draws;
  }

  work(session: string, startMs: number): void {
    const { kinds, systemTokens, taskTokens, calls, subAgentShare } = this.#settings;
    const draws = this.#draws;
    const name = [draws.below(kinds), SYSTEM_NAMES] as const;
    const system: TrafficPiece = { role: "system", name, tokens: systemTokens };
    const agent = new Conversation(session, startMs);
    agent.say(system, this.#new("user", draws.tokens(taskTokens)));
    let helpers = 0;
    for (let call = draws.times(calls); call > 0; call--) {
      this.#call(agent, system);
      if (draws.chance(subAgentShare)) this.#delegate(agent, `${session}-sub-${helpers++}`);
      else agent.say(this.#new("tool", draws.tokens(this.#settings.resultTokens)));
    }
  }

  /** One call of the model; a context that is full is summed up before. */
  #call(agent: Conversation, system: TrafficPiece): void {
    const { contextTokensMax, summaryTokens, outputTokens } = this.#settings;
    const output = this.#draws.tokens(outputTokens);
    if (agent.promptTokens + output > contextTokensMax) {
      this.requests.push(agent.ask({ outputTokens: summaryTokens, thinkMs: 0 }));
      agent.clear();
      agent.say(system, this.#new("user", summaryTokens));
    }
    this.requests.push(agent.ask({ outputTokens: output, thinkMs: this.#pauseMs() }));
  }

  #pauseMs(): number {
    const { userShare, userSeconds, toolSeconds } = this.#settings;
    const isUser = this.#draws.chance(userShare);
    return this.#draws.amount(isUser ? userSeconds : toolSeconds) * 1000;
  }

  /** A sub-agent works in a context of its own; its report is the result of the call. */
  #delegate(agent: Conversation, session: string): void {
    const { subAgentTokens, subAgentCalls, briefTokens, reportTokens } = this.#settings;
    const { resultTokens, outputTokens } = this.#settings;
    const draws = this.#draws;
    const helper = new Conversation(session, agent.nowMs);
    helper.await(agent);
    helper.say(
      { role: "system", name: [0, SUB_AGENT_NAMES], tokens: subAgentTokens },
      this.#new("user", draws.tokens(briefTokens)),
    );
    for (let call = draws.times(subAgentCalls); call > 1; call--) {
      const output = draws.tokens(outputTokens);
      this.requests.push(helper.ask({ outputTokens: output, thinkMs: this.#pauseMs() }));
      helper.say(this.#new("tool", draws.tokens(resultTokens)));
    }
    this.requests.push(helper.ask({ outputTokens: reportTokens, thinkMs: this.#pauseMs() }));
    agent.await(helper);
    agent.say(this.#new("tool", reportTokens));
  }

  /** Contents that no request had before. */
  #new(role: TrafficPiece["role"], tokens: number): TrafficPiece {
    return { role, name: [this.#names++, OTHER_NAMES], tokens };
  }
}
