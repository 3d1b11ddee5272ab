import type { FastifyInstance } from 'fastify';

interface KnownPath {
  readonly pattern: RegExp;
  readonly methods: Set<string>;
}

/** Which methods a path takes, for the answer to one that it does not take. Asked only after no route was found. */
export class AllowedMethods {
  readonly #paths = new Map<string, KnownPath>();

  /** Notes every route that is added to `app` from now on. */
  constructor(app: FastifyInstance) {
    app.addHook('onRoute', ({ url, method }) => {
      let known = this.#paths.get(url);
      if (known === undefined)
        this.#paths.set(url, (known = { pattern: patternOf(url), methods: new Set() }));
      for (const name of Array.isArray(method) ? method : [method]) known.methods.add(name);
    });
  }

  /** The methods of the routes at a request's URL, sorted; none when there is no route at all. */
  of(url: string): string[] {
    const path = url.split(/[?;#]/, 1)[0]!;
    const methods = new Set<string>();
    for (const { pattern, methods: own } of this.#paths.values())
      if (pattern.test(path)) for (const method of own) methods.add(method);
    return [...methods].sort();
  }
}

/** `/v1/events/:eventId` → the paths that it stands for. */
function patternOf(url: string): RegExp {
  const source = url
    .split('/')
    .map((part) =>
      part.startsWith(':') ? '[^/]+' : part === '*' ? '.*' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'),
    )
    .join('/');
  return new RegExp(`^${source}$`);
}
