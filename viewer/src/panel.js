// What the panel says of an operator. Names are untrusted: everything goes through text nodes.

// An element; strings among the children become text.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined));
  return element;
}

export function duration(seconds) {
  const [factor, unit] = seconds < 1e-3 ? [1e6, "µs"] : seconds < 1 ? [1e3, "ms"] : [1, "s"];
  return `${Number((seconds * factor).toPrecision(3))} ${unit}`;
}

const section = (title, ...content) => [make("h3", {}, title), ...content.flat()];
const table = rows => make("table", {}, rows.map(cells => make("tr", {}, cells.map(cell => make("td", {}, cell)))));

// The content of the panel: `app` selects what its buttons name.
export function describe(node, pane, app) {
  const { side } = pane;
  const go = (text, target, where = pane) => make("button", { className: "picture-link", type: "button", onclick: () => app.select(target, where, true) }, text);
  const parts = [make("h2", {}, node.t), make("p", { className: "picture-dim" }, [node.kind === "operator" ? node.name : node.kind, node.location].filter(Boolean).join(" · "))];
  if (node.mark) parts.push(make("p", { className: "picture-bad" }, node.mark));
  parts.push(...(node.findings ?? []).map(finding));
  if (node.bodies) {
    parts.push(make("p", {}, make("button", { type: "button", onclick: () => pane.toggle(node) }, node.open ? "Fold" : "Unfold"), ` ${node.bodies.map(body => body.name).join(", ")}`));
  }
  const facts = [["device", node.device], ["time", node.time === undefined ? "" : duration(node.time)], ["result", app.groupOf(node)]];
  const known = facts.filter(([, text]) => text);
  if (known.length) parts.push(table(known));
  if (node.arguments?.length) parts.push(...section("Arguments", table(node.arguments)));
  if (node.inputs?.length) {
    const maker = name => node.sources.find(edge => edge.blob === name)?.from;
    const typeOf = name => maker(name)?.outputs?.find(([blob]) => blob === name)?.slice(1) ?? [];
    const weights = node.inputs.filter(name => !maker(name) && side.weights[name]);
    const others = node.inputs.filter(name => !weights.includes(name));
    if (others.length) parts.push(...section("Inputs", table(others.map(name => [maker(name) ? go(name, maker(name)) : name, ...typeOf(name)]))));
    for (const name of new Set(weights)) parts.push(...section("Weight", weight(name, side.weights[name])));
  }
  if (node.outputs?.length) {
    parts.push(...section("Outputs", table(node.outputs.map(([name, shape, dtype]) => [name, shape, dtype]))));
    for (const to of new Set(node.targets.map(edge => edge.to))) parts.push(make("p", {}, "to ", go(to.t, to)));
  }
  for (const other of app.panes) {
    if (other === pane) continue;
    const linked = app.linkedOf(node, other.side);
    if (linked.length) parts.push(...section(`In ${other.side.name}`, linked.slice(0, 12).map(twin => make("p", {}, go(twin.name ? `${twin.t} ${twin.name}` : twin.t, twin, other)))));
  }
  return parts;
}

function finding([severity, code, reason, hint]) {
  const className = { error: "picture-bad", warning: "picture-warn" }[severity] ?? "";
  return make("p", { className }, `${severity}: ${reason} [${code}]`, hint ? make("small", {}, hint) : null);
}

// All diagnostics: those of the net, and those of operators.
export function listFindings(app) {
  const parts = [make("h2", {}, "Diagnostics"), ...app.findings.map(finding)];
  for (const node of app.main.side.nodes) {
    if (node.findings) parts.push(make("p", {}, make("button", { className: "picture-link", type: "button", onclick: () => app.select(node, app.main, true) }, node.location)), ...node.findings.map(finding));
  }
  return parts;
}

function weight(name, { shape, dtype, stats, note }) {
  const parts = [make("p", {}, make("b", {}, name), ` ${shape} ${dtype}`)];
  if (note) parts.push(make("p", { className: "picture-dim" }, note));
  if (stats) {
    const { least, most, mean, deviation, zeros, nan, infinite, counts } = stats;
    const number = value => String(Number(Number(value).toPrecision(4)));
    parts.push(table([["min, max", `${number(least)}, ${number(most)}`], ["mean, std", `${number(mean)}, ${number(deviation)}`],
      ...[["zeros", zeros], ["NaN", nan], ["infinite", infinite]].filter(([, count]) => count).map(([what, count]) => [what, String(count)])]));
    if (counts) parts.push(histogram(counts, number(least), number(most)));
  }
  return make("div", { className: "picture-weight" }, parts);
}

function histogram(counts, least, most) {
  const canvas = make("canvas", { width: 480, height: 120, role: "img", "aria-label": `histogram from ${least} to ${most}: ${counts.join(", ")}` });
  const context = canvas.getContext("2d");
  context.fillStyle = "#5b8def";
  const highest = Math.max(...counts);
  const step = canvas.width / counts.length;
  counts.forEach((count, i) => context.fillRect(i * step + 1, canvas.height, step - 2, -Math.ceil((canvas.height * count) / highest)));
  return make("figure", {}, canvas, make("figcaption", {}, make("span", {}, least), make("span", {}, most)));
}
