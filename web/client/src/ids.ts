/** Ids for frames and commands: the same id twice is the same command, so a new id must be unique everywhere. */

export function freshId(): string {
  // `randomUUID` exists only in secure contexts; `getRandomValues` exists everywhere.
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
