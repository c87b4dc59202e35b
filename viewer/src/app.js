// The interactive picture of a model: panes, search, colours, the panel.
import { Side } from "./graph.js";
import { readTheme } from "./draw.js";
import { Pane } from "./pane.js";
import { describe, duration, listFindings, make } from "./panel.js";
import css from "./style.css";

const DEVICES = ["#cfe8cf", "#fbe3b8", "#e5d6f2", "#f8d3cb", "#cdeaea", "#f3e0ec", "#e4e8c4", "#d9d9d9"];
const HOST = "#dfe8f1";
const HEAT = ["#fdf3dc", "#fbdca3", "#f7b267", "#ee7f4b", "#d64933"];
const SEVERITIES = { error: "#f3a297", warning: "#fbe3b8", note: "#dfe8f1" };
const RESULTS = 200;

export class App {
  // `element` is filled; `data` is what Python wrote: {sides, groups}.
  constructor(element, data) {
    Object.assign(this, { element, groups: data.groups ?? {}, findings: data.findings ?? [], whole: element.dataset.whole === "yes" });
    element.classList.add("picture-app");
    this.theme = readTheme(element);
    this.panes = data.sides.map(side => new Pane(new Side(side), this));
    this.main = this.panes[0];
    this.build();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.theme = readTheme(element);
      this.redraw();
    });
  }

  build() {
    const button = (text, title, onclick) => make("button", { type: "button", title, onclick }, text);
    this.search = make("input", { type: "search", placeholder: "Search blobs, operators ( / )", "aria-label": "search blobs and operators", oninput: () => this.find(), onkeydown: event => this.step(event) });
    this.count = make("span", { className: "picture-dim" });
    this.results = make("div", { className: "picture-results", hidden: true });
    this.colours = make("select", { "aria-label": "colours", onchange: () => this.paint() }, this.schemes().map(name => make("option", { value: name }, name)));
    this.legend = make("span", { className: "picture-legend" });
    const zooms = [["\u2212", "zoom out (-)", 0.8], ["+", "zoom in (+)", 1.25]].map(([text, title, factor]) => button(text, title, () => this.seen().forEach(pane => pane.zoom(factor))));
    const tools = [
      ...zooms, button("Fit", "all of it (0)", () => this.seen().forEach(pane => pane.fit())),
      button("Fold", "fold everything", () => this.toggleAll(false)), button("Unfold", "unfold everything", () => this.toggleAll(true)),
    ];
    const count = this.findings.length + this.main.side.nodes.reduce((sum, node) => sum + (node.findings?.length ?? 0), 0);
    if (count) tools.push(button(`Diagnostics ${count}`, "what the export reports", () => this.open(listFindings(this))));
    if (!this.whole) tools.push(button("Full page", "fill the page, or go back", () => this.fill()));
    this.tabs = this.panes.length > 1 ? [...this.panes.map(pane => pane.side.name), "Both"].map(name => button(name, `show ${name}`, () => this.view(name))) : [];
    const bar = make("div", { className: "picture-bar" }, make("span", { className: "picture-search" }, this.search, this.count, this.results),
      make("label", {}, make("span", {}, "Colour "), this.colours), make("span", { className: "picture-tools" }, tools), make("span", { className: "picture-tabs" }, this.tabs), this.legend);
    this.panel = make("aside", { className: "picture-panel", hidden: true, "aria-label": "the operator" });
    this.status = make("div", { className: "picture-status", "aria-live": "polite" });
    this.frames = this.panes.map(pane => make("div", { className: "picture-pane" }, make("div", { className: "picture-title" }, `${pane.side.name}: ${pane.side.title ?? ""}`), pane.canvas));
    this.element.replaceChildren(bar, make("div", { className: "picture-body" }, this.frames, this.panel), this.status);
    this.view(this.element.clientWidth < 900 ? this.main.side.name : "Both");
    this.paint();
  }

  seen() {
    return this.panes.filter((_, i) => !this.frames[i].hidden);
  }

  view(name) {
    this.panes.forEach((pane, i) => (this.frames[i].hidden = this.panes.length > 1 && name !== "Both" && name !== pane.side.name));
    for (const tab of this.tabs) tab.setAttribute("aria-pressed", tab.textContent === name);
  }

  fill() {
    this.element.classList.toggle("picture-full");
    this.whole = this.element.classList.contains("picture-full");
  }

  redraw() {
    this.panes.forEach(pane => pane.redraw());
  }

  toggleAll(open) {
    for (const pane of this.seen()) {
      pane.side.toggleAll(open);
      pane.layout();
      pane.fit();
    }
  }

  // Colours: the first scheme that has something to say is chosen.
  schemes() {
    const nodes = this.panes.flatMap(pane => pane.side.nodes);
    this.slowest = Math.max(0, ...nodes.map(node => node.time ?? 0));
    this.devices = [...new Set(nodes.map(node => node.device).filter(Boolean))];
    const has = {
      error: Object.keys(this.groups).length, time: this.slowest, device: this.devices.length > 1,
      diagnostics: nodes.some(node => node.findings), plain: true,
    };
    const names = Object.keys(has).filter(name => has[name]);
    const urgent = nodes.some(node => node.findings && this.worst(node) === "error") ? "diagnostics" : "plain";
    return names[0] === "diagnostics" ? [urgent, ...names.filter(name => name !== urgent)] : names;
  }

  paint() {
    const scheme = this.colours.value;
    const others = this.devices.filter(device => device !== "CPU");
    const device = Object.fromEntries(this.devices.map(name => [name, name === "CPU" ? HOST : DEVICES[others.indexOf(name) % DEVICES.length]]));
    const heat = share => HEAT[Math.min(HEAT.length - 1, Math.floor(share * HEAT.length))];
    this.colourOf = {
      plain: () => "", error: node => this.groups[node.group], device: node => device[node.device],
      time: node => (node.time === undefined ? "" : heat(node.time / this.slowest)),
      diagnostics: node => node.findings && SEVERITIES[this.worst(node)],
    }[scheme];
    const legends = { error: this.groups, device, diagnostics: SEVERITIES, time: { "0": HEAT[0], [duration(this.slowest)]: HEAT.at(-1) } };
    this.legend.replaceChildren(...Object.entries(legends[scheme] ?? {}).map(([name, colour]) => {
      const key = make("i");
      key.style.background = colour;
      return make("span", {}, key, name);
    }));
    this.redraw();
  }

  worst(node) {
    return Object.keys(SEVERITIES).find(severity => node.findings.some(finding => finding[0] === severity));
  }

  groupOf(node) {
    return node.kind === "operator" ? node.group : "";
  }

  describe(node) {
    const shown = node.outputs?.map(output => output.filter(Boolean).join(" ")) ?? [];
    return [`${node.t} ${node.name ?? ""}`.trim(), node.location, ...shown].filter(Boolean).join("\n");
  }

  // The nodes of a side that a node of the other came from, or became: those of its location, else those inside of it,
  // else those of the closest operator around it.
  linkedOf(node, side) {
    if (node.kind !== "operator") return side.nodes.filter(other => other.kind === node.kind && other.t === node.t && !other.net.owner);
    for (let location = node.location; location; location = location.slice(0, Math.max(0, location.lastIndexOf(" > ")))) {
      const same = side.nodes.filter(other => other.location === location);
      if (same.length) return same;
      const inside = side.nodes.filter(other => other.location?.startsWith(`${location} > `));
      if (inside.length) return inside;
    }
    return [];
  }

  select(node, pane, move) {
    for (const each of this.panes) {
      each.selected = each === pane ? node : null;
      const linked = node && each !== pane ? this.linkedOf(node, each.side) : [];
      each.linked = new Set(linked);
      each.redraw();
    }
    this.panel.hidden = !node;
    this.status.textContent = node ? this.describe(node) : "";
    if (!node) return;
    if (move && this.frames[this.panes.indexOf(pane)].hidden) this.view(pane.side.name);
    this.open(describe(node, pane, this));
    for (const each of this.panes) {
      each.resize(); // the panel took room
      if (each === pane ? move || !each.sees(node) : each.linked.size) each.show(each === pane ? node : [...each.linked][0]);
    }
  }

  // Show something in the panel.
  open(parts) {
    const close = make("button", { type: "button", className: "picture-close", title: "close (Escape)", onclick: () => this.select(null, this.main, false) }, "\u00d7");
    this.panel.replaceChildren(close, ...parts);
    this.panel.hidden = false;
    this.panel.scrollTop = 0;
  }

  find() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.matches = [];
    for (const pane of this.panes) {
      const found = words.length ? pane.side.nodes.filter(node => words.every(word => textOf(node).includes(word))) : [];
      pane.found = new Set(found);
      this.matches.push(...found.map(node => [node, pane]));
      pane.redraw();
    }
    this.current = -1;
    this.count.textContent = words.length ? `${this.matches.length}` : "";
    this.results.hidden = !this.matches.length;
    this.results.replaceChildren(...this.matches.slice(0, RESULTS).map(([node, pane], i) => make("button", { type: "button", onclick: () => this.choose(i) },
      make("b", {}, node.t), ` ${node.outputs?.map(output => output[0]).join(", ") ?? ""} `, make("small", {}, this.panes.length > 1 ? pane.side.name : ""))));
  }

  // Enter goes to the next match, with Shift to the one before.
  step(event) {
    if (event.key === "Escape") {
      this.search.value = "";
      this.find();
    } else if (event.key === "Enter" && this.matches?.length) {
      const { length } = this.matches;
      this.choose((this.current + (event.shiftKey ? length - 1 : 1) + (this.current < 0 && event.shiftKey ? 1 : 0)) % length);
    }
  }

  choose(index) {
    this.current = index;
    this.count.textContent = `${index + 1}/${this.matches.length}`;
    this.results.hidden = true;
    this.select(...this.matches[index], true);
  }
}

function textOf(node) {
  node.text ??= [node.t, node.name, node.location, ...(node.inputs ?? []), ...(node.outputs ?? []).map(output => output[0])].join("\n").toLowerCase();
  return node.text;
}

async function read(text) {
  const bytes = Uint8Array.from(atob(text), char => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

async function open(element) {
  const start = performance.now();
  element.app = new App(element, await read(element.querySelector("script").textContent));
  element.dataset.ready = Math.round(performance.now() - start);
}

const sheet = new CSSStyleSheet();
sheet.replaceSync(css);
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
for (const element of document.querySelectorAll("[data-picture]")) open(element);
for (const jump of document.querySelectorAll("[data-to-picture]")) {
  jump.addEventListener("click", () => document.querySelector("[data-picture]").scrollIntoView({ block: "center" }));
}
