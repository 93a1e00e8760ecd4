/** The place of the reader, from the address: `#/inbox`, `#/s/ID`, `#/rules/ID`. So the browser's back and forward work. */

export type Place =
  | { at: "home" }
  | { at: "inbox" }
  | { at: "new" }
  | { at: "past" }
  | { at: "agents" }
  | { at: "devices" }
  | { at: "rules"; rule?: string; session?: string }
  | { at: "audit"; filter?: string }
  | { at: "session"; session: string };

const PLAIN = ["inbox", "new", "past", "agents", "devices"] as const;

function parse(hash: string): Place {
  const [, name, id, more] = hash.replace(/^#/, "").split("/");
  if (name === "s" && id) return { at: "session", session: id };
  if (name === "rules") return { at: "rules", ...(id ? { rule: id } : {}), ...(more ? { session: more } : {}) };
  if (name === "audit") return { at: "audit", ...(id ? { filter: id } : {}) };
  const plain = PLAIN.find((each) => each === name);
  return plain ? { at: plain } : { at: "home" };
}

class Route {
  place = $state.raw<Place>({ at: "home" });

  start(): void {
    const read = () => {
      this.place = parse(location.hash);
    };
    addEventListener("hashchange", read);
    read();
  }

  go(to: string): void {
    location.hash = to;
  }
}

export const route = new Route();
