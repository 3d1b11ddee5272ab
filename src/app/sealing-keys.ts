import type { Config } from '../config/index.ts';
import { SecretBox } from '../endpoints/index.ts';

export function secretBoxOf(config: Config): SecretBox {
  return new SecretBox(config['secrets.key'], config['secrets.previousKeys']);
}
