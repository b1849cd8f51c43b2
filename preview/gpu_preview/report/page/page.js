// The page: one section for each stack, made of the report that stands in the page as JSON.

const {report, words} = JSON.parse(document.getElementById('data').textContent);

const table = (head, rows, className) => html('div', {class: 'scroll'}, html('table', {class: className},
  html('thead', {}, html('tr', {}, head.map((each) => html('th', {scope: 'col'}, each)))),
  html('tbody', {}, rows.map((row) => html('tr', {}, row.map((each) => html('td', {}, each)))))));

const folded = (title, ...children) => html('details', {}, html('summary', {}, title), ...children);

function side({ref, commit}) {
  return html('span', {}, html('code', {}, ref), commit ? ' at ' : '', commit ? html('code', {title: commit}, commit.slice(0, 10)) : '');
}

// One property that differs, its values below each other.
function difference(change) {
  const line = (kind, sign, value) => (value === null ? '' : html('pre', {class: kind}, html('b', {}, `${sign} `), value));
  return html('div', {class: 'difference'},
    html('code', {class: 'path'}, change.path), ' ',
    change.forcesReplacement ? html('span', {class: 'forces'}, 'forces the replacement') : '',
    line('delete', '-', change.before),
    line('create', '+', change.after));
}

function remarks(list, label) {
  return html('ul', {}, list.map((each) => html('li', {},
    html('b', {}, `${each.rule || each.policy}${label ? ` (${label(each)})` : ''}: `), html('span', {class: 'said'}, each.text),
    each.hint ? html('em', {}, ` ${each.hint}`) : '',
    each.urn ? html('span', {}, ' ', html('code', {}, nameIn(each.urn))) : '',
    each.place ? html('span', {}, ' at ', html('code', {}, `${each.place.file}:${each.place.line}`)) : '')));
}

// All there is to say of one resource.
function about(resource, stack, graph, choose) {
  const kind = KINDS[kindOf(resource)];
  const facts = [
    ['type', resource.type],
    ['moved from', resource.movedFrom && nameIn(resource.movedFrom)],
    ['forced by', resource.replacedFor.join(', ')],
    ['protected', resource.protected ? 'yes' : ''],
    ['in the cloud', resource.retained && ['delete', 'replace'].includes(resource.operation) ? 'it stays; the engine forgets it' : ''],
    ['URN', resource.urn],
  ];
  const links = (title, urns) => (urns.length === 0 ? '' : html('div', {}, html('h4', {}, title), urns.map((urn) => (
    graph.nodes.has(urn) ? html('button', {type: 'button', class: 'link', click: () => choose(urn)}, nameIn(urn))
      : html('code', {}, nameIn(urn))))));
  const said = [...stack.findings, ...stack.violations].filter((each) => each.urn === resource.urn);
  return [
    html('h3', {class: kindOf(resource)}, html('span', {class: 'sign'}, kind.sign), ' ', resource.name, ' ', html('small', {}, wordOf(resource))),
    html('dl', {}, facts.filter(([, text]) => text).map(([name, text]) => [html('dt', {}, name), html('dd', {}, text)])),
    said.length ? remarks(said) : '',
    resource.properties.length ? html('div', {}, resource.properties.map(difference)) : html('p', {class: 'quiet'}, 'No property differs.'),
    links('Depends on', resource.dependsOn),
    links('Used by', graph.users.get(resource.urn) || []),
  ];
}

function explorer(stack) {
  const view = {kinds: new Set(Object.keys(KINDS).filter((kind) => kind !== 'same')), words: [], opened: new Set()};
  const shown = html('output', {class: 'shown'});
  const hint = html('p', {class: 'quiet'}, 'Choose a resource to see what changes in it, what it depends on and what uses it.');
  const panel = html('aside', {class: 'panel', 'aria-live': 'polite'}, hint);
  const close = html('button', {type: 'button', class: 'close', 'aria-label': 'close', click: () => choose('')}, '×');
  const drew = (count) => { shown.textContent = `${count.toLocaleString('en')} of ${number(stack.resources.length, 'resource')} shown`; };
  const graph = new Graph(stack.resources, view, {select: (urn) => choose(urn), drew});
  const choose = (urn) => {
    graph.selected = urn;
    if (urn && !graph.groups.has(urn)) graph.show(urn);
    graph.mark();
    panel.classList.toggle('filled', urn !== '');
    panel.replaceChildren(urn ? html('div', {}, close, about(graph.nodes.get(urn).resource, stack, graph, choose)) : hint);
  };
  const counts = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, 0]));
  for (const resource of stack.resources) counts[kindOf(resource)] += 1;
  const filters = Object.entries(KINDS).filter(([kind]) => counts[kind]).map(([kind, {sign, word}]) => html('button', {
    type: 'button', class: `filter ${kind}`, 'data-kind': kind, 'aria-pressed': String(view.kinds.has(kind)),
    click: (event) => {
      const on = !view.kinds.delete(kind);
      if (on) view.kinds.add(kind);
      event.currentTarget.setAttribute('aria-pressed', String(on));
      graph.draw();
    },
  }, html('span', {class: 'sign'}, sign), ` ${counts[kind].toLocaleString('en')} ${word}`));
  const search = html('input', {
    type: 'search', placeholder: 'name, type or URN', 'aria-label': 'search resources', spellcheck: 'false',
    input: (event) => {
      view.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      graph.draw();
    },
  });
  const element = html('div', {class: 'explorer'},
    html('div', {class: 'tools'}, filters, search, shown),
    html('div', {class: 'sides'}, html('div', {class: 'drawing'}, graph.element), panel));
  return {element, graph};
}

function section(stack, at, explorers) {
  const word = words.stacks[at];
  const severe = (...kinds) => stack.findings.filter((each) => kinds.includes(each.severity));
  const box = (className, title, list, label) => (list.length === 0 ? '' : html('div', {class: `box ${className}`}, html('h3', {}, title), remarks(list, label)));
  const explored = stack.resources.length ? explorer(stack) : null;
  if (explored) explorers.set(at, explored);
  const warnings = severe('warning', 'note');
  return html('section', {id: `stack-${at}`, class: stack.status},
    html('h2', {}, stack.stack),
    html('p', {class: 'verdict'}, word.outcome, word.concerns ? ['; ', html('b', {}, word.concerns)] : ''),
    stack.error ? html('pre', {class: 'error'}, stack.error) : '',
    word.baseHint ? html('p', {class: 'base-hint'}, word.baseHint) : '',
    box('danger', 'Dangers', severe('danger')),
    box('policy', 'Policies broken', word.violations, (each) => each.level),
    word.cost.length ? [table(['USD', 'at rest, an hour', 'at max, an hour', 'worst month'], word.cost, 'cost'),
      html('p', {class: 'quiet cost-note'}, word.costNote)] : '',
    explored ? explored.element : '',
    stack.outputs.length ? folded(number(stack.outputs.length, 'output differs', 'outputs differ'), stack.outputs.map(difference)) : '',
    warnings.length ? folded(number(warnings.length, 'warning'), remarks(warnings)) : '',
    stack.state ? html('p', {class: 'quiet'}, `Compared with the exported state ${stack.state}, ${words.secretsTaken}.`) : '',
    word.policies ? html('p', {class: 'quiet'}, `Policies: ${word.policies}`) : '');
}

// On paper nobody can click, so everything that changes is written out below each graph.
function writeOut(explorers) {
  document.querySelectorAll('details').forEach((each) => { each.open = true; });
  for (const [at, {graph}] of explorers) {
    const stack = report.stacks[at];
    const changed = stack.resources.filter((each) => kindOf(each) !== 'same');
    const articles = changed.map((each) => html('article', {}, about(each, stack, graph, () => {})));
    document.getElementById(`stack-${at}`).append(html('div', {class: 'paper'}, articles));
  }
}

const explorers = new Map();
const stands = report.walls.filter((each) => each.stands).map((each) => each.name).join(', ');
document.getElementById('page').append(
  html('header', {}, html('h1', {}, 'Preview of a change'),
    html('p', {}, 'Base ', side(report.base), ', head ', side(report.head), `; ${words.origin} by `, html('code', {}, report.madeBy), '.')),
  report.stacks.length > 1 ? table(['stack', words.asked, 'look at', 'worst month, USD'], report.stacks.map((stack, at) => [
    html('a', {href: `#stack-${at}`}, stack.stack), words.stacks[at].outcome, words.stacks[at].concerns,
    words.stacks[at].worstMonth]), 'stacks') : '',
  report.stacks.length > 1 && words.signs ? html('p', {class: 'quiet stacks-note'}, words.signs) : '',
  ...report.stacks.map((stack, at) => section(stack, at, explorers)),
  html('footer', {},
    stands ? html('p', {}, `Walls around the head's code that stood: ${stands}.`) : '',
    report.walls.filter((each) => !each.stands).map((each) => html('p', {class: 'box danger'}, html('b', {}, `No wall: ${each.name}. `), each.text))));

const redrawAll = () => explorers.forEach(({graph}) => graph.draw());
redrawAll();
addEventListener('resize', redrawAll);
addEventListener('beforeprint', () => writeOut(explorers));
addEventListener('afterprint', () => document.querySelectorAll('.paper').forEach((each) => each.remove()));
