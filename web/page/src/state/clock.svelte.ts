/** The current time: one timer for every text such as "2 min". */

class Clock {
  now = $state(Date.now());
  constructor() {
    setInterval(() => {
      this.now = Date.now();
    }, 1_000);
  }
}

export const clock = new Clock();
