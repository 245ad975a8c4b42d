/** One turn: `role`, `content` and whatever else the template knows (`tool_calls`, `name`). */
export interface TemplateMessage {
  readonly role: string;
  readonly content?: string | readonly unknown[] | null;
  readonly [field: string]: unknown;
}
