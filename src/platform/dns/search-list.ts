/** What resolv.conf(5) says of names that are not complete. */
export interface SearchList {
  readonly domains: readonly string[];
  /** A name with at least this many dots is asked as it stands first. */
  readonly ndots: number;
}

/** Look-ups of one name are bounded by this many and one. Kubernetes writes three domains and those of the node. */
const MAX_DOMAINS = 8;
/** As in resolv.conf(5). */
const MAX_NDOTS = 15;
const MAX_NAME_LENGTH = 253;

/** Reads `search` (or `domain`) and `options ndots:n`; the last line of a kind counts, as for the system's own resolver. */
export function parseSearchList(text: string): SearchList {
  let domains: readonly string[] = [];
  let ndots = 1;
  for (const line of text.split('\n')) {
    const [keyword, ...values] = line.trim().split(/\s+/);
    if (keyword === 'search') domains = values;
    else if (keyword === 'domain') domains = values.slice(0, 1);
    else if (keyword === 'options') ndots = ndotsOf(values) ?? ndots;
  }
  return {
    domains: domains
      .map(bare)
      .filter((domain) => domain !== '')
      .slice(0, MAX_DOMAINS),
    ndots,
  };
}

function ndotsOf(options: readonly string[]): number | undefined {
  const option = options.findLast((text) => /^ndots:\d+$/.test(text));
  return option === undefined ? undefined : Math.min(MAX_NDOTS, Number(option.slice('ndots:'.length)));
}

const bare = (domain: string): string => domain.toLowerCase().replace(/\.$/, '');

/** The complete names to ask for, in turn, until one exists. A name that ends in a dot is complete already. */
export function completeNames(name: string, { domains, ndots }: SearchList): readonly string[] {
  if (name.endsWith('.')) return [name.slice(0, -1)];
  const searched = domains
    .map((domain) => `${name}.${domain}`)
    .filter((candidate) => candidate.length <= MAX_NAME_LENGTH);
  const dots = name.split('.').length - 1;
  return dots >= ndots ? [name, ...searched] : [...searched, name];
}
