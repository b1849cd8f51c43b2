'use strict';

// The sign beside the colour is what the colour-blind read.
const KINDS = {
  replace: {sign: '±', word: 'replaced'},
  delete: {sign: '−', word: 'deleted'},
  create: {sign: '+', word: 'created'},
  update: {sign: '~', word: 'updated'},
  moved: {sign: '→', word: 'moved'},
  same: {sign: '=', word: 'unchanged'},
};

// What happens to a resource, a move without anything else being a kind of its own.
function kindOf(resource) {
  return resource.operation === 'same' && resource.movedFrom ? 'moved' : resource.operation;
}

// What happens to it, in words.
function wordOf(resource) {
  return KINDS[kindOf(resource)].word + (resource.mayReplace ? ', may be a replacement' : '');
}

// An element whose strings become text, never HTML.
function make(namespace, name, attributes, children) {
  const element = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function') element.addEventListener(key, value);
    else if (value !== null && value !== false) element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== ''));
  return element;
}

const html = (name, attributes, ...children) => make('http://www.w3.org/1999/xhtml', name, attributes, children);
const svg = (name, attributes, ...children) => make('http://www.w3.org/2000/svg', name, attributes, children);

const shortened = (text, length) => (text.length <= length ? text : `${text.slice(0, Math.max(length - 1, 1))}…`);
const nameIn = (urn) => urn.slice(urn.lastIndexOf('::') + 2);
const number = (count, one, many) => `${count.toLocaleString('en')} ${count === 1 ? one : many || `${one}s`}`;
