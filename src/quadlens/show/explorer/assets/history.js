// Undo and redo of edits. One step holds the parts of the state that one action changed, before and after it; a drag or
// a slider in motion is one step.
Q.history = (() => {
  // What changes the model; choosing inputs, views or neurons is no edit, and not worth a step.
  const EDITS = ["moves", "gains", "off", "jitter", "drop", "arc", "uneven", "attention", "scope", "seed", "carry", "keep", "part"];
  const LONGEST = 500;

  class History {
    constructor() {
      this.done = [];
      this.undone = [];
      this.open = null;
    }

    /** Take note of `patch` on `state`. With a `motion` (the name of a drag), steps of the same motion become one. */
    note(state, patch, motion) {
      const keys = Object.keys(patch).filter((key) => JSON.stringify(patch[key]) !== JSON.stringify(state[key]));
      if (!keys.some((key) => EDITS.includes(key))) return;
      this.undone = [];
      const pick = (from) => Object.fromEntries(keys.map((key) => [key, from[key]]));
      if (motion && motion === this.open) {
        const step = this.done[this.done.length - 1];
        step.before = { ...pick(state), ...step.before };
        step.after = { ...step.after, ...pick(patch) };
        return;
      }
      this.done.push({ before: pick(state), after: pick(patch) });
      if (this.done.length > LONGEST) this.done.shift();
      this.open = motion || null;
    }

    /** The motion is over: the next one is a step of its own. */
    close() {
      this.open = null;
    }

    /** What to change to take the last step back, or null. */
    undo() {
      this.close();
      const step = this.done.pop();
      if (step) this.undone.push(step);
      return step ? step.before : null;
    }

    /** What to change to repeat the step taken back last, or null. */
    redo() {
      this.close();
      const step = this.undone.pop();
      if (step) this.done.push(step);
      return step ? step.after : null;
    }
  }

  return { History };
})();
