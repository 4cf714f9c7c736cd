/** What is added to the template of each recipe so that it asks another endpoint, as the recipe's own text tells. */
export interface Endpoint {
  readonly env?: Readonly<Record<string, string>>;
  readonly argv?: readonly string[];
}

export const ENDPOINTS: Readonly<Record<string, (url: string) => Endpoint>> = {
  claude: (url) => ({ env: { ANTHROPIC_BASE_URL: url } }),
  codex: (url) => ({ argv: [`--config=openai_base_url=${url}/v1`] }),
  gemini: (url) => ({ env: { GOOGLE_GEMINI_BASE_URL: url } }),
  opencode: (url) => {
    const provider = { anthropic: { options: { baseURL: `${url}/v1` } } };
    return { env: { OPENCODE_CONFIG_CONTENT: JSON.stringify({ provider }) } };
  },
};
