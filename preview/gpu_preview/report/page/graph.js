// The graph of a stack: boxes within boxes, and the dependencies of the one that is looked at.

class Graph {
  // `select` is called with the URN of a resource that was clicked, `drew` with how many are drawn.
  constructor(resources, view, {select, drew}) {
    Object.assign(this, {view, select, drew});
    Object.assign(this, treeOf(resources));
    this.users = new Map();
    for (const resource of resources) {
      for (const urn of resource.dependsOn) this.users.set(urn, [...(this.users.get(urn) || []), resource.urn]);
    }
    this.element = svg('svg', {class: 'graph', role: 'group', 'aria-label': 'Resources'});
    this.looked = '';
    this.selected = '';
    const on = (type, does) => this.element.addEventListener(type, (event) => {
      const target = event.target.closest('[data-urn], [data-fold]');
      if (target) does(target.dataset, event);
    });
    on('click', (data) => this.act(data));
    on('keydown', (data, event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      this.act(data);
    });
    for (const type of ['mouseover', 'focusin']) on(type, (data) => this.look(data.urn || ''));
    for (const type of ['mouseout', 'focusout']) on(type, () => this.look(''));
  }

  act({urn, fold}) {
    if (urn !== undefined) {
      this.select(urn);
      return;
    }
    this.view.opened.add(fold);
    this.draw();
  }

  // Draws what the view shows.
  draw() {
    const width = Math.max(this.element.parentElement ? this.element.parentElement.clientWidth : 0, 300);
    choose(this.root, this.view);
    const height = place(this.root, 1, 1, width - 2) + 2;
    this.element.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.element.setAttribute('width', width);
    this.element.setAttribute('height', height);
    this.groups = new Map();
    this.edges = svg('g', {class: 'edges'});
    this.element.replaceChildren(...this.boxes(this.root), this.edges);
    this.mark();
    this.drew(this.groups.size);
  }

  boxes(node) {
    const drawn = node.children.filter((each) => each.shown).flatMap((each) => this.box(each));
    if (node.stub) {
      const {x, y, width, height} = node.stub;
      const label = `${KINDS.same.sign} ${node.folded.toLocaleString('en')} unchanged`;
      const fold = node.resource ? node.resource.urn : '';
      drawn.push(svg('g', {class: 'stub', tabindex: 0, role: 'button', 'data-fold': fold, 'aria-label': `show ${label}`},
        svg('rect', {x, y, width, height, rx: 5}),
        svg('text', {x: x + 8, y: y + 24}, label)));
    }
    return drawn;
  }

  box(node) {
    const {resource, kind, x, y, width, height} = node;
    const letters = Math.floor((width - 16) / 7.3);
    const {sign} = KINDS[kind];
    const word = wordOf(resource);
    const also = resource.movedFrom && kind !== 'moved' ? ` ${KINDS.moved.sign}` : '';
    const group = svg('g', {
      class: `node ${kind}`, tabindex: 0, role: 'button', 'data-urn': resource.urn,
      'aria-label': `${resource.name}, ${resource.type}, ${word}`,
    },
    svg('title', {}, `${resource.name}\n${resource.type}\n${word}`),
    svg('rect', {x, y, width, height, rx: 5, class: node.columns ? 'outer' : 'leaf'}),
    svg('text', {x: x + 8, y: y + 16, class: 'name'}, shortened(`${sign}${also} ${resource.name}`, letters)));
    const type = resource.type.slice(resource.type.lastIndexOf(':') + 1);
    if (!node.columns) group.append(svg('text', {x: x + 8, y: y + 32, class: 'type'}, shortened(type, letters)));
    this.groups.set(resource.urn, group);
    return [group, ...this.boxes(node)];
  }

  look(urn) {
    this.looked = urn;
    this.mark();
  }

  // Marks the selected resource, and draws the dependencies of it or of the one that is looked at.
  mark() {
    const from = this.looked || this.selected;
    const related = new Set();
    const lines = [];
    if (this.nodes.has(from)) {
      const pairs = this.nodes.get(from).resource.dependsOn.map((urn) => [from, urn, 'needs']);
      pairs.push(...(this.users.get(from) || []).map((urn) => [urn, from, 'needed']));
      for (const [user, used, which] of pairs) {
        const [start, end] = [this.place(user), this.place(used)];
        if (start && end && start !== end) lines.push(edge(start, end, which));
        related.add(user).add(used);
      }
    }
    this.edges.replaceChildren(...lines);
    for (const [urn, group] of this.groups) {
      group.classList.toggle('selected', urn === this.selected);
      group.classList.toggle('related', related.has(urn));
    }
  }

  // Where a resource is drawn: itself, or the sign for the folded ones it is among.
  place(urn) {
    let node = this.nodes.get(urn);
    while (node && node.parent && !node.shown) node = node.parent;
    return node && (node.resource && node.resource.urn === urn ? node : node.stub || (node.resource ? node : null));
  }

  // Shows a resource that is folded away, and selects it.
  show(urn) {
    for (let node = this.nodes.get(urn); node; node = node.parent) this.view.opened.add(node.resource ? node.resource.urn : '');
    this.selected = urn;
    this.draw();
    if (this.groups.has(urn)) this.groups.get(urn).scrollIntoView({block: 'nearest'});
  }
}

// An arrow from one box to another, bent so that it passes beside the boxes between them.
function edge(start, end, which) {
  const middle = (box) => [box.x + box.width / 2, box.y + box.height / 2];
  const [[x1, y1], [x2, y2]] = [middle(start), middle(end)];
  const bend = [(x1 + x2) / 2 + (y1 - y2) * 0.2, (y1 + y2) / 2 + Math.abs(x2 - x1) * 0.2];
  const border = (box, [toX, toY]) => {
    const [x, y] = middle(box);
    const far = Math.max(Math.abs(toX - x) / (box.width / 2), Math.abs(toY - y) / (box.height / 2), 1);
    return [x + (toX - x) / far, y + (toY - y) / far];
  };
  const [from, to] = [border(start, bend), border(end, bend)];
  const angle = Math.atan2(to[1] - bend[1], to[0] - bend[0]);
  const wing = (turn) => `${to[0] - 9 * Math.cos(angle + turn)},${to[1] - 9 * Math.sin(angle + turn)}`;
  return svg('g', {class: which},
    svg('path', {d: `M${from} Q${bend} ${to}`}),
    svg('polygon', {points: `${to} ${wing(0.4)} ${wing(-0.4)}`}));
}
