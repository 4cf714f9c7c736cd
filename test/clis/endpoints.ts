/** What is added to the template of each recipe so that it asks another endpoint, as the recipe's own text tells. */
export interface Endpoint {
  readonly env?: Readonly<Record<string, string>>;
  readonly argv?: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
}

export const ENDPOINTS: Readonly<Record<string, (url: string) => Endpoint>> = {
  claude: (url) => ({ env: { ANTHROPIC_BASE_URL: url } }),
  codex: (url) => ({ argv: [`--config=openai_base_url=${url}/v1`] }),
  gemini: (url) => ({ env: { GOOGLE_GEMINI_BASE_URL: url } }),
  opencode: (url) => {
    const provider = { anthropic: { options: { baseURL: `${url}/v1` } } };
    return { env: { OPENCODE_CONFIG_CONTENT: JSON.stringify({ provider }) } };
  },
  qwen: (url) => ({ env: { OPENAI_BASE_URL: `${url}/v1` } }),
  pi: (url) => {
    const providers = { anthropic: { baseUrl: url } };
    return { files: { '~/.pi/agent/models.json': JSON.stringify({ providers }) } };
  },
  cline: (url) => {
    const settings = { provider: 'openai-compatible', model: '{model}', baseUrl: `${url}/v1` };
    const entry = { settings, updatedAt: '2026-01-01T00:00:00.000Z', tokenSource: 'manual' };
    const lastUsedProvider = 'openai-compatible';
    const providers = { version: 1, lastUsedProvider, modes: {}, providers: { [lastUsedProvider]: entry } };
    return { files: { '~/.cline/data/settings/providers.json': JSON.stringify(providers) } };
  },
  continue: (url) => {
    const model = [
      'name: step',
      'provider: openai',
      'model: "{model}"',
      `apiBase: ${url}/v1`,
      'roles: [chat]',
    ];
    const key = 'apiKey: ${{ secrets.OPENAI_API_KEY }}';
    const config = [
      'name: step',
      'version: 0.0.1',
      'schema: v1',
      'models:',
      `  - ${[...model, key].join('\n    ')}`,
    ];
    return { files: { '~/.continue/config.yaml': config.join('\n') } };
  },
  copilot: (url) => ({ env: { COPILOT_PROVIDER_BASE_URL: `${url}/v1` } }),
};
