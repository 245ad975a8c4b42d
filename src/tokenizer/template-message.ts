/** One turn: `role`, `content` and further template fields (`tool_calls`, `name`). */
export interface TemplateMessage {
  readonly role: string;
  readonly content?: string | readonly unknown[] | null;
  readonly [field: string]: unknown;
}
