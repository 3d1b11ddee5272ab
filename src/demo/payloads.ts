import { createRequire } from 'node:module';

/** One of GitHub's published webhook examples, as the text that is sent. */
export interface DemoPayload {
  readonly type: string;
  readonly text: string;
}

interface Example {
  readonly name: string;
  readonly examples: readonly unknown[];
}

/**
 * The payloads of npm's `@octokit/webhooks-examples` (MIT): 329 of 58 types. Every other one is written with indentation, so that a
 * relay which re-encodes JSON would be found out.
 * @throws Error when the package is not installed: it comes with a checkout, not with the published package
 */
export function loadPayloads(): DemoPayload[] {
  const require = createRequire(import.meta.url);
  let examples: readonly Example[];
  try {
    examples = require('@octokit/webhooks-examples') as Example[];
  } catch (error) {
    throw new Error(
      'the demo needs the npm package @octokit/webhooks-examples, which a checkout of RelayOps brings',
      { cause: error },
    );
  }
  let index = 0;
  return examples.flatMap(({ name, examples: bodies }) =>
    bodies.map((body) => ({
      type: `github.${name}`,
      text: JSON.stringify(body, null, index++ % 2 === 0 ? 0 : 2),
    })),
  );
}
