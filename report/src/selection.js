// SPDX-License-Identifier: Apache-2.0
//
// What all plots share: which runs are shown, which point is looked at, and how
// far each kind of x axis is zoomed. Plots listen; nobody else draws.

export class Selection extends EventTarget {
  constructor(count) {
    super();
    this.shown = new Array(count).fill(true);
    this.focus = null; // {run, at}: a run, and which of its records
    this.zoom = {}; // of an x axis, by its key: [from, to] or absent
    this.logarithmic = false; // the axes of time and bytes
  }

  tell(what, detail) {
    this.dispatchEvent(new CustomEvent(what, { detail }));
  }

  show(run, on) {
    this.shown[run] = on;
    this.tell("shown");
  }

  showOnly(test) {
    this.shown = this.shown.map((_, run) => test(run));
    this.tell("shown");
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
