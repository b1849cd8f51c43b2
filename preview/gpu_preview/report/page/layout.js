// Where the boxes of the graph are: each within its parent's, side by side as the width allows.

const LEAF = {width: 176, height: 40};
const GAP = 8;
const TITLE = 24;

// The resources as a tree. A parent that is not there, or that is its own descendant, is none.
function treeOf(resources) {
  const nodes = new Map(resources.map((resource) => [resource.urn, {resource, kind: kindOf(resource), children: []}]));
  const root = {resource: null, kind: 'same', children: []};
  for (const node of nodes.values()) {
    const parent = nodes.get(node.resource.parent);
    const seen = new Set([node]);
    let above = parent;
    while (above && !seen.has(above)) {
      seen.add(above);
      above = nodes.get(above.resource.parent);
    }
    node.parent = parent && !above ? parent : root;
    node.parent.children.push(node);
  }
  const order = Object.keys(KINDS);
  const sort = (node) => {
    node.children.forEach(sort);
    node.worst = Math.min(order.indexOf(node.kind), ...node.children.map((child) => child.worst));
    node.children.sort((one, other) => one.worst - other.worst);
  };
  sort(root);
  return {root, nodes};
}

// Decides for each node whether it is shown, how many unchanged ones it keeps folded, and how wide it would like to be.
function choose(node, view) {
  const open = view.kinds.has('same') || view.words.length > 0 || view.opened.has(node.resource ? node.resource.urn : '');
  node.folded = 0;
  node.columns = 0;
  for (const child of node.children) {
    choose(child, view);
    const fits = matches(child, view);
    child.shown = child.children.some((each) => each.shown) || (fits && (child.kind !== 'same' || open));
    if (child.shown) node.columns += Math.max(1, child.columns);
    else node.folded += child.folded + (fits && child.kind === 'same' ? 1 : 0);
  }
  node.columns += node.folded ? 1 : 0;
}

function matches(node, view) {
  const {name, type, urn, movedFrom} = node.resource;
  const text = `${name} ${type} ${urn} ${movedFrom}`.toLowerCase();
  if (!view.words.every((word) => text.includes(word))) return false;
  return node.kind === 'same' || view.kinds.has(node.kind) || (node.resource.movedFrom !== '' && view.kinds.has('moved'));
}

// Gives each shown node its x, y, width and height; the height of all is returned.
function place(node, x, y, width) {
  // A box may be somewhat narrower than it should, or each level of nesting would cost a column.
  const columns = Math.max(1, Math.floor((width + GAP) / (LEAF.width + GAP) + 0.25));
  const unit = (width - (columns - 1) * GAP) / columns;
  let column = 0;
  let top = y;
  let row = 0;
  const put = (item, span, isBox) => {
    if (column + span > columns) {
      top += row + GAP;
      column = row = 0;
    }
    item.x = x + column * (unit + GAP);
    item.y = top;
    item.width = span * unit + (span - 1) * GAP;
    item.height = LEAF.height;
    if (isBox) item.height = TITLE + place(item, item.x + GAP, top + TITLE, Math.max(item.width - 2 * GAP, 40)) + GAP;
    column += span;
    row = Math.max(row, item.height);
  };
  for (const child of node.children.filter((each) => each.shown)) {
    put(child, Math.min(columns, Math.max(1, child.columns)), child.columns > 0);
  }
  node.stub = node.folded ? {} : null;
  if (node.stub) put(node.stub, 1, false);
  return top + row - y;
}
