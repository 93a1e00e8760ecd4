/** The settings of this browser. They stay in its storage and are never sent. */

type Theme = "system" | "light" | "dark";

function read(name: string): string | null {
  try {
    return localStorage.getItem(`portolan.${name}`);
  } catch {
    return null;
  }
}

function write(name: string, value: string): void {
  try {
    localStorage.setItem(`portolan.${name}`, value);
  } catch {
    // The page also works in a browser without storage.
  }
}

class Settings {
  #theme = $state<Theme>((read("theme") as Theme | null) ?? "system");
  #shortcuts = $state(read("shortcuts") !== "off");
  #notify = $state(read("notify") === "on");
  #split = $state(read("diff") === "split");

  get theme(): Theme {
    return this.#theme;
  }
  set theme(theme: Theme) {
    this.#theme = theme;
    write("theme", theme);
    this.apply();
  }

  get shortcuts(): boolean {
    return this.#shortcuts;
  }
  set shortcuts(on: boolean) {
    this.#shortcuts = on;
    write("shortcuts", on ? "on" : "off");
  }

  get notify(): boolean {
    return this.#notify;
  }
  set notify(on: boolean) {
    this.#notify = on;
    write("notify", on ? "on" : "off");
  }

  /** Diffs side by side if there is room. */
  get split(): boolean {
    return this.#split;
  }
  set split(on: boolean) {
    this.#split = on;
    write("diff", on ? "split" : "inline");
  }

  apply(): void {
    if (this.#theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = this.#theme;
  }
}

export const settings = new Settings();

/** The last folder someone started a session in. */
export const lastFolder = { get: () => read("folder") ?? "", set: (folder: string) => write("folder", folder) };
/** Unsent text, by session; it survives a reload. */
export const drafts = {
  get: (session: string) => sessionStorage.getItem(`portolan.draft.${session}`) ?? "",
  set: (session: string, text: string) =>
    text ? sessionStorage.setItem(`portolan.draft.${session}`, text) : sessionStorage.removeItem(`portolan.draft.${session}`),
};
