/** The time as the page shows it: one timer for everything that says "2 min". */

class Clock {
  now = $state(Date.now());
  constructor() {
    setInterval(() => {
      this.now = Date.now();
    }, 1_000);
  }
}

export const clock = new Clock();
