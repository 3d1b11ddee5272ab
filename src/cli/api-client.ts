/** An answer of the API that is a problem document. */
export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly fix: string;

  constructor(status: number, body: { code?: string; detail?: string; fix?: string }) {
    super(body.detail ?? `the API answered ${status}`);
    this.name = 'ApiProblem';
    this.status = status;
    this.code = body.code ?? `HTTP_${status}`;
    this.fix = body.fix ?? '';
  }
}

/** Calls the HTTP API with JSON bodies, for commands and the demo. Other programs use the SDK. */
export class ApiClient {
  readonly url: string;
  readonly #apiKey: string;

  constructor(url: string, apiKey: string) {
    this.url = url.replace(/\/$/, '');
    this.#apiKey = apiKey;
  }

  /** @throws ApiProblem when the answer is not 2xx */
  async call<T>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<T> {
    const raw = typeof body === 'string' || body instanceof Uint8Array;
    const response = await fetch(this.url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#apiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: raw ? (body as string) : JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new ApiProblem(response.status, parseProblem(text));
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }
}

function parseProblem(text: string): { code?: string; detail?: string; fix?: string } {
  try {
    return JSON.parse(text) as { code?: string };
  } catch {
    // Not ours: a proxy's page, for example. Its status is all there is to say.
    return {};
  }
}
