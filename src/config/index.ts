export { loadConfig, describeConfig, environmentOf, ConfigError, type ConfigProblem } from './config.ts';
export { keys, environmentName, type Config, type KeyName, type KeySpec } from './keys.ts';
