// A canvas that shows one side: pan, zoom, fit, pointers and keys.
import { draw } from "./draw.js";
import { layoutNet } from "./layout.js";

const [SMALLEST, LARGEST] = [0.005, 4];
const MARGIN = 24;
const MOMENT = 60; // milliseconds

export class Pane {
  constructor(side, app) {
    Object.assign(this, { side, app, view: { x: 0, y: 0, k: 1 }, selected: null, linked: new Set(), found: new Set() });
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `${side.name}: ${side.nodes.length} operators and blobs. Arrow keys go along blobs, Enter folds and unfolds, plus and minus zoom.`);
    this.pointers = new Map();
    for (const [name, handle] of Object.entries({
      pointerdown: this.down, pointermove: this.move, pointerup: this.up, pointercancel: this.up,
      dblclick: this.double, wheel: this.wheel, keydown: this.key,
    })) this.canvas.addEventListener(name, event => handle.call(this, event), { passive: false });
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    this.layout();
  }

  // Lay out what fits into a moment, and the rest in moments after it; `whole` waits for it.
  layout(whole = false) {
    clearTimeout(this.later);
    this.scene = layoutNet(this.side.net, whole ? Infinity : performance.now() + MOMENT);
    this.places = new Map(this.scene.items.map(item => [item.node ?? item.segment ?? item.box, item]));
    if (this.scene.partial) this.later = setTimeout(() => this.proceed());
    this.redraw();
  }

  // What was there stays where it is on the screen.
  proceed() {
    const [{ x }] = this.scene.items;
    this.layout();
    this.view.x += this.scene.items[0].x - x;
  }

  resize() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    if (!w || !h) return;
    const first = !this.width;
    [this.width, this.height] = [w, h];
    this.canvas.width = w * devicePixelRatio;
    this.canvas.height = h * devicePixelRatio;
    if (first) this.start();
    this.drawNow(); // a canvas is empty once its size is set
  }

  redraw() {
    this.waiting ??= requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    if (this.waiting) cancelAnimationFrame(this.waiting);
    this.waiting = null;
    if (!this.width) return;
    const { selected, linked, found, app } = this;
    const stands = ({ node, segment }) => node?.mark || selected === (node ?? segment) || linked.has(node) || found.has(node);
    const state = { selected, linked, found, stands, colourOf: node => app.colourOf(node), worst: node => app.worst(node) };
    this.shown = draw(this.canvas.getContext("2d"), this.scene, this.view, this.width, this.height, app.theme, state);
  }

  // The beginning: the whole if it can be read, else its top; the marked operator if there is one.
  start() {
    this.fit();
    this.started = true;
    const marked = this.side.nodes.find(node => node.mark);
    if (this.view.k < 0.5) {
      const first = this.scene.items[0];
      this.view = { k: 0.8, x: first.x + first.w / 2 - this.width / 1.6, y: -MARGIN };
    }
    if (marked) this.show(marked);
  }

  fit() {
    if (this.scene.partial && this.started) this.layout(true);
    const { w, h } = this.scene;
    const k = Math.min(1.25, (this.width - 2 * MARGIN) / w, (this.height - 2 * MARGIN) / h);
    this.view = { k: Math.max(SMALLEST, k), x: 0, y: 0 };
    this.view.x = (w - this.width / this.view.k) / 2;
    this.view.y = Math.min((h - this.height / this.view.k) / 2, -MARGIN);
    this.redraw();
  }

  // Unfold what an operator is in, and bring it to the middle.
  show(item) {
    if (!this.places.has(item)) {
      this.side.reveal(item);
      this.layout(true);
    }
    const { x, y, w, h } = this.places.get(item);
    const k = Math.max(this.view.k, 0.7);
    this.view = { k, x: x + w / 2 - (this.width ?? 0) / k / 2, y: y + Math.min(h, 100) / 2 - (this.height ?? 0) / k / 2 };
    this.redraw();
  }

  // Whether the middle of an item's title is in view.
  sees(item) {
    const [x, y] = this.place(item);
    const { left, top, right, bottom } = this.canvas.getBoundingClientRect();
    return x > left && x < right && y > top && y < bottom;
  }

  // Open or fold; what was clicked stays where it is on the screen.
  toggle(item, open) {
    const before = this.places.get(item);
    this.side.toggle(item, open);
    this.layout();
    const after = this.places.get(item) ?? this.places.get(item.nodes?.[0]);
    if (before && after) {
      this.view.x += after.x + after.w / 2 - before.x - before.w / 2;
      this.view.y += after.y - before.y;
    }
    this.redraw();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const { view } = this;
    const k = Math.min(LARGEST, Math.max(SMALLEST, view.k * factor));
    view.x += x / view.k - x / k;
    view.y += y / view.k - y / k;
    view.k = k;
    this.redraw();
  }

  pan(dx, dy) {
    this.view.x -= dx / this.view.k;
    this.view.y -= dy / this.view.k;
    this.redraw();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  hit(x, y) {
    const [u, v] = [this.view.x + x / this.view.k, this.view.y + y / this.view.k];
    const inside = item => !item.box && u >= item.x && u <= item.x + item.w && v >= item.y && v <= item.y + item.h;
    return this.scene.items.findLast(inside);
  }

  // Where the middle of an item's title is on the page.
  place(item) {
    const { x, y, w } = this.places.get(item);
    const box = this.canvas.getBoundingClientRect();
    return [box.left + (x + w / 2 - this.view.x) * this.view.k, box.top + (y + 10 - this.view.y) * this.view.k];
  }

  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.at(event));
    this.moved = 0;
  }

  move(event) {
    const [x, y] = this.at(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      const item = this.hit(x, y);
      this.canvas.style.cursor = item ? "pointer" : "grab";
      this.canvas.title = item?.node ? this.app.describe(item.node) : item?.title ?? "";
      return;
    }
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    if (others.length) {
      const [u, v] = others[0];
      this.zoom(Math.hypot(x - u, y - v) / (Math.hypot(before[0] - u, before[1] - v) || 1), (x + u) / 2, (y + v) / 2);
      this.moved = 9;
    } else {
      this.moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      if (this.moved > 4) this.pan(x - before[0], y - before[1]);
    }
    this.pointers.set(event.pointerId, [x, y]);
  }

  up(event) {
    const known = this.pointers.delete(event.pointerId);
    if (!known || this.moved > 4 || event.type !== "pointerup") return;
    const [x, y] = this.at(event);
    const item = this.hit(x, y);
    const near = item && (x / this.view.k + this.view.x - item.x) < 22;
    if (item && (item.segment || (item.node.bodies && near))) this.toggle(item.segment ?? item.node);
    else this.app.select(item?.node ?? null, this, false);
  }

  double(event) {
    const item = this.hit(...this.at(event));
    if (item?.node?.bodies && event.clientX) this.toggle(item.node);
    else if (!item) this.zoom(1.6, ...this.at(event));
  }

  wheel(event) {
    const free = this.app.whole || event.ctrlKey || event.metaKey || document.activeElement === this.canvas;
    if (!free) return; // the page scrolls
    event.preventDefault();
    if (event.shiftKey) this.pan(-event.deltaX - event.deltaY, 0);
    else this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...this.at(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [1, 0], ArrowRight: [-1, 0] };
    const step = steps[event.key];
    const acts = {
      "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), 0: () => this.fit(),
      Home: () => this.walkTo(this.side.nodes[0]), End: () => this.walkTo(this.side.nodes.at(-1)),
      Enter: () => this.selected?.bodies && this.toggle(this.selected),
      f: () => this.selected && this.toggle(this.selected.segment.net.segments.length > 1 ? this.selected.segment : this.selected.net.owner ?? this.selected),
      "/": () => this.app.search.focus(), Escape: () => this.app.select(null, this, false),
    };
    const act = step ? () => (event.shiftKey || !this.selected ? this.pan(60 * step[0], 60 * step[1]) : this.walk(event.key)) : acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  // Go along blobs: up to what the operator reads, down to its readers, left and right to their other readers.
  walk(key) {
    const node = this.selected;
    const up = node.sources.map(edge => edge.from);
    const next = { ArrowUp: up[0], ArrowDown: node.targets[0]?.to }[key];
    if (next) return this.walkTo(next);
    const row = [...new Set(up.length ? up[0].targets.map(edge => edge.to) : node.net.nodes.filter(n => !n.sources.length))];
    const other = row[row.indexOf(node) + (key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : NaN)];
    if (other) this.walkTo(other);
  }

  walkTo(node) {
    this.app.select(node, this, true);
  }
}
