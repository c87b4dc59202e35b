// Drawing of a scene on a canvas: what is in view, with as much detail as its scale shows.
import { LINE, TITLE, linesOf } from "./layout.js";

const TEXT = 0.42; // scale below which there is no text
const FINE = 0.2; // scale below which there are no rounded corners and no arrows
const INK = "#1f2933"; // on coloured nodes, in both themes

export function readTheme(element) {
  const style = getComputedStyle(element);
  const names = ["ink", "dim", "paper", "card", "line", "accent", "bad", "warn", "input", "output", "body"];
  return Object.fromEntries(names.map(name => [name, style.getPropertyValue(`--p-${name}`).trim()]));
}

// Draw a scene; `view` has x, y (the scene's point at the top left) and k (scale); `state` what is selected and coloured.
export function draw(context, scene, view, width, height, theme, state) {
  const ratio = devicePixelRatio;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = theme.paper;
  context.fillRect(0, 0, width, height);
  context.setTransform(ratio * view.k, 0, 0, ratio * view.k, -view.x * view.k * ratio, -view.y * view.k * ratio);
  const bounds = [view.x, view.y, view.x + width / view.k, view.y + height / view.k];
  const items = scene.items.filter(item => meets(bounds, item.x, item.y, item.x + item.w, item.y + item.h));
  const lines = scene.lines.filter(line => inView(line, bounds));
  const boxes = items.filter(item => item.box || item.node?.open);
  for (const item of boxes) drawBox(context, item, view.k, theme, state);
  drawLines(context, lines, view.k, theme, state);
  for (const item of items) if (!item.box && !item.node?.open) drawNode(context, item, view.k, theme, state);
  return items.length;
}

function meets([left, top, right, bottom], x0, y0, x1, y1) {
  return x1 >= left && x0 <= right && y1 >= top && y0 <= bottom;
}

function inView(line, bounds) {
  if (!line.bounds) {
    const [xs, ys] = [line.points.map(p => p[0]), line.points.map(p => p[1])];
    line.bounds = [Math.min(...xs) - 2, Math.min(...ys), Math.max(...xs) + 150, Math.max(...ys)]; // with its label
  }
  return meets(bounds, ...line.bounds);
}

function path(context, x, y, w, h, radius) {
  context.beginPath();
  if (radius && context.roundRect) context.roundRect(x, y, w, h, radius);
  else context.rect(x, y, w, h);
}

function drawBox(context, item, k, theme, state) {
  const { node, box, x, y, w, h } = item;
  path(context, x, y, w, h, k > FINE ? 7 : 0);
  context.fillStyle = box ? theme.paper : theme.body;
  context.fill();
  outline(context, item, theme, state, 1.2);
  if (k < TEXT) return;
  if (box) return write(context, box.name, x + 8, y + LINE, theme.dim, false);
  const colour = state.colourOf(node);
  if (colour) {
    path(context, x, y, w, TITLE + 6, 7);
    context.fillStyle = colour;
    context.fill();
  }
  drawTexts(context, item, theme, colour ? INK : theme.ink, colour ? INK : theme.dim, state);
}

function drawNode(context, item, k, theme, state) {
  const { node, segment, x, y, w, h } = item;
  const colour = node?.kind === "operator" ? state.colourOf(node) : "";
  context.fillStyle = colour || (segment ? theme.body : node.kind === "operator" ? theme.card : theme[node.kind]);
  if (k <= FINE && !state.stands(item)) {
    if (!colour) context.fillStyle = theme.line; // without an outline it must stand out
    return context.fillRect(x, y, w, h);
  }
  path(context, x, y, w, h, k > FINE ? (segment ? 9 : node.kind === "operator" ? 5 : 10) : 0);
  context.fill();
  outline(context, item, theme, state, 0.8);
  if (segment && k > FINE) {
    path(context, x + 3, y + 3, w - 6, h - 6, 7); // looks like a stack
    context.stroke();
  }
  if (k >= TEXT) drawTexts(context, item, theme, colour ? INK : theme.ink, colour ? "#3d4852" : theme.dim, state);
}

function outline(context, item, theme, state, width) {
  const { node, segment } = item;
  const chosen = state.selected && (state.selected === node || state.selected === segment);
  context.strokeStyle = chosen || state.linked.has(node) ? theme.accent : node?.mark ? theme.bad : theme.line;
  context.lineWidth = chosen ? 3 : state.linked.has(node) ? 2.5 : node?.mark ? 3 : width;
  context.setLineDash(state.linked.has(node) && !chosen ? [5, 3] : []);
  context.stroke();
  context.setLineDash([]);
  if (node && state.found.has(node)) {
    context.lineWidth = 2;
    context.strokeStyle = theme.warn;
    context.strokeRect(item.x - 4, item.y - 4, item.w + 8, item.h + 8);
  }
}

function drawTexts(context, item, theme, ink, dim, state) {
  const { node, segment, x, y } = item;
  let at = x + 8;
  if (segment || node.bodies) {
    write(context, segment || !node.open ? "+" : "\u2212", at, y + TITLE - 1, theme.accent, true, 15);
    at += 15;
  }
  write(context, node?.t ?? item.title, at, y + TITLE - 1, ink, node?.kind !== "input" && node?.kind !== "output");
  if (node?.mark) write(context, node.mark, at + context.measureText(node.t).width + 8, y + TITLE - 1, theme.bad, true);
  (node ? linesOf(node) : item.lines).forEach((line, i) => write(context, line, x + 8, y + TITLE + 10 + i * LINE, dim, false));
  if (node?.findings && state.worst(node) !== "note") {
    context.beginPath();
    context.arc(x + item.w, y, 7, 0, 7);
    context.fillStyle = state.worst(node) === "error" ? theme.bad : theme.warn;
    context.fill();
    write(context, "!", x + item.w - 2, y + 4, theme.paper, true);
  }
}

function write(context, text, x, y, colour, bold, size) {
  context.font = bold ? `600 ${size ?? 12}px system-ui, sans-serif` : "10.5px system-ui, sans-serif";
  context.fillStyle = colour;
  context.fillText(text, x, y);
}

function drawLines(context, lines, k, theme, state) {
  const touches = line => (line.edges ?? [line.edge]).some(edge => edge.from === state.selected || edge.to === state.selected);
  const chosen = state.selected ? lines.filter(touches) : [];
  context.lineWidth = k > FINE ? 1 : 0.8 / k;
  context.strokeStyle = context.fillStyle = theme.line;
  trace(context, lines, k);
  context.strokeStyle = context.fillStyle = theme.accent;
  context.lineWidth = Math.max(2, 1.2 / k);
  trace(context, chosen, k);
  if (k < TEXT) return;
  for (const line of lines) {
    if (!line.label) continue;
    const { atEnd, dx, dy, lines: texts } = line.label;
    const [x, y] = line.points.at(atEnd ? -1 : 0);
    texts.forEach((text, i) => write(context, text, x + dx, y + dy + i * 11, theme.dim, false));
  }
}

// One path for all lines, through the middles of their points, and one for their arrows.
function trace(context, lines, k) {
  context.beginPath();
  for (const { points } of lines) {
    context.moveTo(...points[0]);
    if (k > FINE) {
      for (let i = 1; i < points.length - 1; i++) {
        const [[x, y], [u, v]] = [points[i], points[i + 1]];
        const last = i === points.length - 2;
        context.quadraticCurveTo(x, y, last ? u : (x + u) / 2, last ? v : (y + v) / 2);
      }
      if (points.length === 2) context.lineTo(...points[1]);
    } else for (const point of points.slice(1)) context.lineTo(...point);
  }
  context.stroke();
  if (k <= FINE) return;
  context.beginPath();
  for (const { points, arrow } of lines) {
    if (!arrow) continue;
    const [[x, y], [u, v]] = [points.at(-2), points.at(-1)];
    const angle = Math.atan2(v - y, u - x);
    for (const [i, turn] of [0, 0.4, -0.4].entries()) {
      const [px, py] = [u - (i ? 7 : 0) * Math.cos(angle + turn), v - (i ? 7 : 0) * Math.sin(angle + turn)];
      context[i ? "lineTo" : "moveTo"](px, py);
    }
  }
  context.fill();
}
