// Importing the API brings in every feature, and with them every error definition.
import '../../src/app/api.ts';
import { statusOfKind } from '../../src/platform/http/problem.ts';
import { errorDefinitions } from '../../src/shared/errors.ts';
import { code, GENERATED, table } from './markdown.ts';

export function errorsPage(): string {
  const rows = errorDefinitions().map((definition) => [
    code(definition.code),
    String(statusOfKind(definition.kind)),
    definition.title,
    definition.fix,
  ]);
  return (
    [
      GENERATED,
      '# Errors',
      'An error of the API is a problem document (RFC 9457, `application/problem+json`). Switch on `code`: it never changes its meaning. `title` is the same for every occurrence, `detail` is about this one, `fix` says what to do, `errors` names the fields, and `requestId` finds the log line. Where waiting helps, the header `Retry-After` says how long.',
      '```json\n' + JSON.stringify(EXAMPLE, null, 2) + '\n```',
      table(['code', 'status', 'title', 'what to do'], rows),
    ].join('\n\n') + '\n'
  );
}

const EXAMPLE = {
  type: 'https://relayops.dev/errors/REQUEST_INVALID',
  title: 'The request does not fit its schema.',
  status: 400,
  code: 'REQUEST_INVALID',
  detail: 'The request does not fit its schema.',
  fix: 'Correct the fields listed under "errors"; /openapi.json has the schema.',
  requestId: 'u3bX9sQ0tXb1',
  errors: [{ field: 'body/url', reason: 'is missing', fix: 'Add it.' }],
};
