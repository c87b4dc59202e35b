// Where things are: each segment of a net is laid out by dagre, segments stand below each other, bodies in boxes.
//
// A scene has absolute coordinates: items {x, y, w, h, node | segment | box}, and lines {points, edge, arrow, label}.
import { Graph, layout as dagre } from "@dagrejs/dagre";

export const TITLE = 16;
export const LINE = 13;
const PADDING = 8;
const LINES = 6; // small lines that a node shows
const GAP = 34; // between segments
const BYPASS = 12; // between lines that pass a folded segment
const STEP = 24; // of widths
const arranged = new Map();

let context = null;
const widths = new Map();

// The width of a text in the picture.
export function measure(text, bold = false) {
  const key = (bold ? "b" : "n") + text;
  if (!widths.has(key)) {
    context ??= document.createElement("canvas").getContext("2d");
    context.font = bold ? "600 12px system-ui, sans-serif" : "10.5px system-ui, sans-serif";
    widths.set(key, context.measureText(text).width);
  }
  return widths.get(key);
}

export function linesOf(node) {
  const lines = node.lines ?? [];
  return lines.length > LINES ? [...lines.slice(0, LINES - 1), "…"] : lines;
}

function sizeOf(node) {
  const lines = linesOf(node);
  const title = measure(node.t, true) + (node.bodies ? 16 : 0) + (node.mark ? measure(node.mark, true) + 10 : 0);
  const width = Math.max(title, ...lines.map(line => measure(line)), 24) + 2 * PADDING;
  return [Math.ceil(width / STEP) * STEP, TITLE + 6 + lines.length * LINE];
}

// Lay out a net; layouts are kept until something in them is opened or folded. What is not laid out by the `deadline`
// is left for later calls: a scene that is `partial` ends before it.
export function layoutNet(net, deadline = Infinity) {
  if (!net.layout || net.layout.partial) {
    const parts = [];
    for (const segment of net.segments) {
      if (!segment.layout && parts.length && performance.now() > deadline) break;
      parts.push((segment.layout ??= layoutSegment(segment)));
    }
    net.layout = stack(parts);
    net.layout.partial = parts.length < net.segments.length;
  }
  return net.layout;
}

// Put the segments below each other; what crosses from one to the next runs straight where it can.
function stack(parts) {
  const scene = { items: [], lines: [], w: 0, h: 0 };
  let before = null;
  let [x, left] = [0, 0];
  for (const part of parts) {
    if (before) {
      const moves = [...part.tops].filter(([from]) => before.has(from)).map(([from, at]) => before.get(from) - at);
      x = moves.length ? moves.sort((a, b) => a - b)[moves.length >> 1] : before.get(null);
      for (const [from, at] of part.tops) {
        if (!before.has(from)) continue;
        const [y, to] = [scene.h - GAP, scene.h];
        scene.lines.push({ points: [[before.get(from), y], [before.get(from), y + 8], [x + at, to - 8], [x + at, to]], edge: { from } });
      }
    }
    place(part, x, scene.h, scene);
    left = Math.min(left, x);
    scene.w = Math.max(scene.w, x + part.w);
    scene.h += part.h + GAP;
    before = new Map([...part.bottoms].map(([from, at]) => [from, x + at]));
    before.set(null, x);
  }
  scene.h -= GAP;
  return left < 0 ? place(scene, -left, 0, { items: [], lines: [], w: scene.w - left, h: scene.h }) : scene;
}

// Add a scene to another, moved.
function place(part, dx, dy, scene) {
  for (const item of part.items) scene.items.push({ ...item, x: item.x + dx, y: item.y + dy });
  for (const line of part.lines) scene.lines.push({ ...line, points: line.points.map(([x, y]) => [x + dx, y + dy]) });
  return scene;
}

// The nodes of other segments that a segment reads, or that later ones read: at its top, and at its bottom.
function crossings(segment) {
  const [first, last] = [segment.nodes[0].index, segment.nodes.at(-1).index];
  const [tops, bottoms] = [new Set(), new Set()];
  if (segment.net.segments.length > 1) {
    for (const edge of segment.net.edges) {
      if (edge.from.index < first && edge.to.index >= first) tops.add(edge.from);
      if (edge.from.index <= last && edge.to.index > last) bottoms.add(edge.from);
    }
  }
  return [tops, bottoms];
}

function layoutSegment(segment) {
  const [tops, bottoms] = crossings(segment);
  if (!segment.open) return foldedSegment(segment, tops, bottoms);
  // The vertices: the nodes, and the points where lines come in and go out.
  const inners = segment.nodes.map(node => (node.open ? layoutBodies(node) : null));
  const sizes = segment.nodes.map((node, i) => (inners[i] ? [inners[i].w, inners[i].h] : sizeOf(node)));
  const starts = new Map([...segment.nodes, ...tops].map((node, i) => [node, i]));
  const ends = new Map([...bottoms].map((node, i) => [node, starts.size + i]));
  const edges = new Map();
  const connect = (a, b, edge) => edges.set(`${a} ${b}`, [...(edges.get(`${a} ${b}`) ?? []), edge]);
  for (const node of segment.nodes) for (const edge of node.sources) connect(starts.get(edge.from), starts.get(node), edge);
  for (const from of bottoms) connect(starts.get(from), ends.get(from), { from });
  const found = arrange(sizes, tops.size + bottoms.size, [...edges.keys()]);

  const scene = { items: [], lines: [], w: found.w, h: found.h, tops: new Map(), bottoms: new Map() };
  const labels = []; // those that do not cover each other: the panel has them all
  segment.nodes.forEach((node, i) => {
    const [w, h] = sizes[i];
    const [x, y] = [found.places[i][0] - w / 2, found.places[i][1] - h / 2];
    scene.items.push({ x, y, w, h, node });
    if (inners[i]) place(inners[i], x, y, scene);
  });
  for (const [key, all] of edges) {
    const points = found.lines.get(key);
    const label = labelOf(all, points);
    if (label && !labels.some(other => covers(label, other))) labels.push(label);
    scene.lines.push({ points, edge: all[0], edges: all, label: labels.at(-1) === label && label, arrow: Boolean(all[0].to) });
  }
  for (const [sources, ports, indices, edge] of [[tops, scene.tops, starts, 0], [bottoms, scene.bottoms, ends, found.h]]) {
    for (const from of sources) {
      const [x, y] = found.places[indices.get(from)];
      ports.set(from, x);
      scene.lines.push({ points: [[x, edge], [x, y]], edge: { from } });
    }
  }
  return scene;
}

// The label of a line: at its start, or at its end if several blobs of the operator have one.
function labelOf(edges, points) {
  const text = edges.map(edge => edge.label).find(Boolean);
  if (!text) return null;
  const atEnd = edges[0].from.targets.filter(edge => edge.label).length > 1;
  const lines = text.split("\n");
  const dy = atEnd ? -10 - 11 * (lines.length - 1) : 12;
  const [x, y] = points.at(atEnd ? -1 : 0);
  return { dx: 5, dy, atEnd, lines, x, y: y + dy, w: Math.max(...lines.map(line => measure(line))) + 6, h: 11 * lines.length };
}

function covers(a, b) {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

// Let dagre place vertices of these sizes, and `points` more without one. Nets repeat themselves: what was arranged once
// is kept. Widths are in steps, so that blocks that differ little in the lengths of their names are alike.
function arrange(sizes, points, edges) {
  const vertices = [...sizes, ...new Array(points).fill([1, 1])];
  const key = `${vertices.join(" ")};${edges.join()}`;
  if (!arranged.has(key)) {
    const graph = new Graph();
    graph.setGraph({ rankdir: "TB", nodesep: 22, edgesep: 12, ranksep: 38, ranker: "tight-tree" });
    vertices.forEach(([width, height], i) => graph.setNode(String(i), { width, height }));
    for (const edge of edges) graph.setEdge(...edge.split(" "), {});
    dagre(graph);
    const { width: w, height: h } = graph.graph();
    const places = vertices.map((_, i) => [graph.node(String(i)).x, graph.node(String(i)).y]);
    const lines = new Map(edges.map(edge => [edge, graph.edge(...edge.split(" ")).points.map(({ x, y }) => [x, y])]));
    arranged.set(key, { w, h, places, lines });
  }
  return arranged.get(key);
}

// A folded segment is a box; blobs that only pass it run at its right.
function foldedSegment(segment, tops, bottoms) {
  const types = new Map();
  for (const node of segment.nodes) if (node.kind === "operator") types.set(node.t, (types.get(node.t) ?? 0) + 1);
  const most = [...types].sort((a, b) => b[1] - a[1]).slice(0, 4);
  const lines = [most.map(([type, count]) => `${count} ${type}`).join(", ") + (types.size > 4 ? ", …" : "")];
  const count = [...types.values()].reduce((a, b) => a + b, 0);
  const title = `${count} operators: ${segment.title}`;
  const w = Math.max(measure(title, true) + 18, ...lines.map(line => measure(line)), 120) + 2 * PADDING;
  const h = TITLE + 10 + LINE;
  const scene = { items: [{ x: 0, y: 0, w, h, segment, title, lines }], lines: [], w, h, tops: new Map(), bottoms: new Map() };
  const reads = new Set(segment.nodes.flatMap(node => node.sources.map(edge => edge.from)));
  const inside = new Set(segment.nodes);
  const passing = [...tops].filter(from => bottoms.has(from));
  passing.forEach((from, i) => {
    const x = w + BYPASS * (i + 1);
    scene.tops.set(from, x);
    scene.bottoms.set(from, x);
    const points = [[x, 0], [x, h]];
    scene.lines.push({ points, edge: { from } });
    if (reads.has(from)) scene.lines.push({ points: [[x, 4], [w, h / 2]], edge: { from }, arrow: true });
  });
  scene.w += BYPASS * passing.length;
  const spread = (sources, ports) => sources.forEach((from, i) => ports.set(from, (w * (i + 1)) / (sources.length + 1)));
  spread([...tops].filter(from => !bottoms.has(from)), scene.tops);
  spread([...bottoms].filter(from => inside.has(from)), scene.bottoms);
  return scene;
}

// An open operator: its title and lines, and its bodies beside each other.
function layoutBodies(node) {
  const [width, head] = sizeOf(node);
  const scene = { items: [], lines: [], w: width, h: 0 };
  let [x, tallest] = [PADDING, 0];
  for (const body of node.bodies) {
    const inner = layoutNet(body);
    const w = Math.max(inner.w, measure(body.name) + 8) + 2 * PADDING;
    const h = inner.h + 2 * PADDING + LINE + 4;
    scene.items.push({ x, y: head, w, h, box: body });
    place(inner, x + (w - inner.w) / 2, head + LINE + 4 + PADDING, scene);
    x += w + PADDING;
    tallest = Math.max(tallest, h);
  }
  scene.w = Math.max(width, x);
  scene.h = head + tallest + PADDING;
  return scene;
}
