import type { IncomingMessage, ServerResponse } from 'node:http';

/** Answers with one JSON document. */
export function answerJson(
  response: ServerResponse,
  status: number,
  document: unknown,
  headers: readonly string[] = [],
): void {
  const body = Buffer.from(JSON.stringify(document));
  response.writeHead(status, [
    'content-type',
    'application/json',
    'content-length',
    String(body.length),
    ...headers,
  ]);
  response.end(body);
}

/** Calls back with the whole body. A longer one is answered 413; of a request that breaks off nothing is heard. */
export function collectBody(
  request: IncomingMessage,
  response: ServerResponse,
  maxBytes: number,
  onBody: (body: Buffer) => void,
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= maxBytes) chunks.push(chunk);
    else if (!response.headersSent)
      answerJson(response, 413, { error: `A body has ${maxBytes} bytes at most.` }, ['connection', 'close']);
  });
  request.on('end', () => {
    if (bytes > maxBytes) return;
    const [only] = chunks;
    onBody(chunks.length === 1 && only ? only : Buffer.concat(chunks));
  });
}
