// The model of a picture: nets as graphs of nodes, cut into segments that can be folded.
//
// A net as Python writes it: {name, nodes, edges}. A node has a kind (operator, input, output), a title `t`, small lines
// `lines`, and what the panel shows; `bodies` are nets. An edge is [from, to, blob, label], indices of nodes of the net.

const LONG = 3000; // nodes of a side: above, its segments are folded at first
const MANY = 400; // nodes of a side: above, the bodies of operators are folded at first
const SEGMENT = 60; // nodes of a segment, about

// One net beside another: all its nodes, at any depth, in order.
export class Side {
  constructor({ name, title, net, weights }) {
    Object.assign(this, { name, title, net, weights, nodes: [] });
    this.read(net, null);
    const few = this.nodes.length <= MANY;
    for (const node of this.nodes) node.open = few && Boolean(node.bodies);
    this.cut(net, this.nodes.length <= LONG);
  }

  read(net, owner) {
    net.owner = owner;
    for (const node of net.nodes) {
      Object.assign(node, { net, sources: [], targets: [], number: this.nodes.length, side: this });
      this.nodes.push(node);
      for (const body of node.bodies ?? []) this.read(body, node);
    }
    net.edges = net.edges.map(([from, to, blob, label]) => ({ from: net.nodes[from], to: net.nodes[to], blob, label }));
    for (const edge of net.edges) {
      edge.from.targets.push(edge);
      edge.to.sources.push(edge);
    }
  }

  cut(net, open) {
    net.segments = segments(sorted(net.nodes)).map(nodes => ({ net, nodes, open, title: titleOf(nodes) }));
    if (net.segments.length === 1) net.segments[0].open = true;
    for (const segment of net.segments) for (const node of segment.nodes) node.segment = segment;
    for (const node of net.nodes) for (const body of node.bodies ?? []) this.cut(body, true);
  }

  // Open what a node is in, and forget the layouts around it.
  reveal(node) {
    for (let inner = node; inner; inner = inner.net.owner) {
      if (inner !== node) inner.open = true;
      inner.segment.open = true;
      inner.segment.layout = inner.net.layout = null;
    }
  }

  // Open or fold a node or a segment.
  toggle(item, open = !item.open) {
    item.open = open;
    for (let segment = item.segment ?? item; segment; segment = segment.net.owner?.segment) {
      segment.layout = segment.net.layout = null;
    }
  }

  toggleAll(open) {
    const visit = net => {
      net.layout = null;
      for (const segment of net.segments) {
        segment.layout = null;
        segment.open = open || net.segments.length === 1;
      }
      for (const node of net.nodes) {
        node.open = open && Boolean(node.bodies);
        node.bodies?.forEach(visit);
      }
    };
    visit(this.net);
  }
}

// The nodes in an order in which each follows those that it reads: that of the net, and inputs right before their
// first reader.
function sorted(nodes) {
  const placed = new Set();
  const order = [];
  for (const first of nodes) {
    if (first.kind === "input" && first.targets.length) continue;
    const waiting = [first];
    while (waiting.length) {
      const node = waiting.at(-1);
      const before = placed.has(node) ? [] : node.sources.map(edge => edge.from).filter(from => !placed.has(from));
      if (before.length && !node.visited) {
        node.visited = true; // a cycle, which only a damaged net has, ends here
        waiting.push(...before);
      } else {
        waiting.pop();
        if (!placed.has(node)) order.push(node);
        placed.add(node);
      }
    }
  }
  order.push(...nodes.filter(node => !placed.has(node)));
  order.forEach((node, index) => (node.index = index));
  return order;
}

// Cut ordered nodes into runs of about SEGMENT, where the fewest blobs cross.
function segments(order) {
  if (order.length <= 2 * SEGMENT) return [order];
  const steps = new Array(order.length + 1).fill(0);
  for (const node of order) {
    const last = Math.max(node.index, ...node.targets.map(edge => edge.to.index));
    if (last > node.index) {
      steps[node.index + 1] += 1;
      steps[last + 1] -= 1;
    }
  }
  for (let i = 1; i < steps.length; i++) steps[i] += steps[i - 1]; // blobs that cross the cut before a node
  const found = [];
  let start = 0;
  while (order.length - start > 1.5 * SEGMENT) {
    let best = start + SEGMENT;
    const cost = cut => steps[cut] + Math.abs(cut - start - SEGMENT) / SEGMENT;
    for (let cut = start + SEGMENT / 2; cut <= start + 1.5 * SEGMENT; cut++) if (cost(cut) < cost(best)) best = cut;
    found.push(order.slice(start, best));
    start = best;
  }
  return [...found, order.slice(start)];
}

// What a folded segment is called: the first and the last blob that it writes.
function titleOf(nodes) {
  const blobs = nodes.filter(node => node.kind === "operator").flatMap(node => (node.outputs ?? []).slice(0, 1)).map(o => o[0]);
  return blobs.length > 1 ? `${blobs[0]} … ${blobs.at(-1)}` : blobs[0] ?? nodes[0]?.t ?? "";
}
