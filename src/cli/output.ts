import Table from 'cli-table3';

/** One JSON object as the last line for machines, or text for people. */
export function emit(options: { readonly json?: boolean }, object: unknown, text: string): void {
  process.stdout.write((options.json ? JSON.stringify(object) : text) + '\n');
}

/** A plain table; colours are left out when nobody would see them. */
export function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const plain = !process.stdout.isTTY || process.env['NO_COLOR'] !== undefined;
  const made = new Table({ head: [...head], ...(plain ? { style: { head: [], border: [] } } : {}) });
  for (const row of rows) made.push([...row]);
  return made.toString();
}
