import { connect } from 'amqplib';

const TIMEOUT_MS = 5_000;

/** What a broker says of itself. @throws when it cannot be reached, or refuses the credentials */
export async function askBroker(url: string): Promise<{ product: string; version: string }> {
  const connection = await connect(url, { timeout: TIMEOUT_MS });
  connection.on('error', () => undefined);
  try {
    const { product, version } = connection.connection.serverProperties;
    return { product, version };
  } finally {
    await connection.close();
  }
}
