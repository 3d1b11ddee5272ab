/**
 * The one spelling under which an e-mail address is kept and looked up. Case is folded in the local part too: no provider in
 * use tells Ann@ from ann@, and two accounts that look the same would be a trap.
 */
export function normalisedEmail(text: string): string {
  return text.trim().toLowerCase();
}
