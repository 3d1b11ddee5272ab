// Runs before every npm script that needs packages, on whatever Node the machine has (20 or newer): installs what
// the lock file names when it is not there yet, or when the lock file has changed since. After that it costs 30 ms.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const stamp = path.join(root, 'node_modules', '.relayops-setup');
const wanted = createHash('sha256')
  .update(readFileSync(path.join(root, 'package-lock.json')))
  .digest('hex');

const major = Number(process.versions.node.split('.')[0]);
if (major < 20) {
  console.error(`RelayOps needs Node 20 or newer to set itself up; this is ${process.version}.`);
  process.exit(1);
}

if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== wanted) {
  console.error('Installing packages (first run or changed lock file) ...');
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const run = spawnSync(npm, ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  if (run.status !== 0) {
    console.error('npm ci failed; its message is above. Nothing was started.');
    process.exit(run.status ?? 1);
  }
  writeFileSync(stamp, wanted);
}
