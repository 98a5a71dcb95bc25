// SPDX-License-Identifier: Apache-2.0
//
// What all plots share: which runs are shown, which point is looked at, and how
// far each kind of x axis is zoomed. Plots listen; nobody else draws.
//
// A run is shown if it was not hidden itself and no set of runs that it is in, such as
// those of a method or of a link, was hidden.

export class Selection extends EventTarget {
  constructor(count) {
    super();
    this.shown = new Array(count).fill(true);
    this.hidden = new Set(); // runs
    this.hiddenSets = new Set(); // of runs
    this.focus = null; // {run, at}: a run, and which of its records
    this.zoom = {}; // of an x axis, by its key: [from, to] or absent
    this.logarithmic = false; // the axes of time and bytes
  }

  tell(what, detail) {
    this.dispatchEvent(new CustomEvent(what, { detail }));
  }

  update() {
    this.shown = this.shown.map((_, run) => !this.hidden.has(run) && ![...this.hiddenSets].some((set) => set.has(run)));
    this.tell("shown");
  }

  show(run, on) {
    if (on) this.hidden.delete(run);
    else this.hidden.add(run);
    this.update();
  }

  // Sets are compared by identity.
  showSets(sets, on) {
    for (const set of sets)
      if (on) this.hiddenSets.delete(set);
      else this.hiddenSets.add(set);
    this.update();
  }

  showAll() {
    this.hidden.clear();
    this.hiddenSets.clear();
    this.update();
  }

  look(focus) {
    const before = this.focus;
    if (before?.run === focus?.run && before?.at === focus?.at) return;
    this.focus = focus;
    this.tell("focus");
  }

  setLogarithmic(on) {
    this.logarithmic = on;
    this.zoom = {};
    this.tell("scale");
  }

  zoomTo(axis, range) {
    this.zoom[axis] = range;
    this.tell("zoom", axis);
  }
}
