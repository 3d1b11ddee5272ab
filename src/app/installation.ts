import { type Config, ConfigError, environmentName, loadConfig } from '../config/index.ts';
import { AllowListError, parseAllowList } from '../platform/http/address-guard.ts';
import { EmbeddedPostgres } from '../platform/db/embedded.ts';
import { EmbeddedHome } from './embedded-home.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** A configuration that can run: with a database and all secrets, given or embedded. */
export interface Installation {
  readonly config: Config;
  /** Null when the database is the user's own. */
  readonly home: EmbeddedHome | null;
  /** Stops the embedded server; does nothing otherwise. */
  close(): Promise<void>;
}

/**
 * Completes the configuration. Without a database URL the embedded server is started on its kept data, with secrets of its own; with one,
 * secrets must come from the environment.
 * @throws ConfigError with every problem at once
 */
export async function openInstallation(
  environment: Environment,
  overrides: Partial<Config> = {},
): Promise<Installation> {
  const given = loadConfig(environment, overrides);
  checkAllowList(given);
  if (given['database.url'] !== '') {
    requireSecrets(given);
    return { config: given, home: null, close: async () => undefined };
  }
  const home = new EmbeddedHome(given['database.dataDir']);
  const secrets = await home.secrets();
  const server = await EmbeddedPostgres.start({ dataDir: home.dataDir });
  const config = loadConfig(environment, {
    ...overrides,
    'database.url': server.url,
    'auth.jwtSecret': given['auth.jwtSecret'] || secrets.jwtSecret,
    'secrets.key': given['secrets.key'] || secrets.secretsKey,
  });
  return { config, home, close: () => server.stopServer() };
}

/** The list's syntax belongs to the address guard; its problems are reported like all others. */
function checkAllowList(config: Config): void {
  const key = 'delivery.allowAddresses';
  try {
    parseAllowList(config[key]);
  } catch (error) {
    if (!(error instanceof AllowListError)) throw error;
    throw new ConfigError(
      error.problems.map(({ entry, reason, fix }) => ({
        key,
        environment: environmentName(key),
        reason: `"${entry}" ${reason}: ${fix}`,
      })),
    );
  }
}

function requireSecrets(config: Config): void {
  const missing = (['auth.jwtSecret', 'secrets.key'] as const).filter((key) => config[key] === '');
  if (missing.length === 0) return;
  throw new ConfigError(
    missing.map((key) => ({
      key,
      environment: environmentName(key),
      reason: 'is needed with a database of your own; make one with `openssl rand -base64 32`',
    })),
  );
}
