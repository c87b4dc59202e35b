// Parts of the page from data. Names in models are untrusted: all of them become text nodes.

export function element (name, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(name)
  Object.assign(made, attributes)
  if (text !== undefined) made.textContent = text
  made.append(...children)
  return made
}

// A finding. If its hint says how to describe an input, a button does that: onDescribe gets the description.
export function finding ({ severity, place, reason, hint, code }, onDescribe) {
  const item = element('li', {}, element('b', { className: severity, text: severity }))
  if (place) item.append(element('span', { className: 'place', text: place }), ' ')
  item.append(element('span', { text: `${reason} [${code}]` }))
  const described = hint?.match(/--input '([^']+)'/)?.[1]
  if (hint) item.append(element('span', { className: 'hint', text: hint }))
  if (described && onDescribe) {
    const button = element('button', { type: 'button', text: `Describe it: ${described}` })
    button.addEventListener('click', () => onDescribe(described))
    item.append(button)
  }
  return item
}

export function download ({ name, data }) {
  const href = URL.createObjectURL(new Blob([data], { type: 'application/octet-stream' }))
  const size = data.length < 1e6 ? `${Math.ceil(data.length / 1e3)} kB` : `${(data.length / 1e6).toFixed(1)} MB`
  return element('a', { className: 'button primary', href, download: name, text: `Download ${name} (${size})` })
}

function dims (values) {
  return `[${values.join(', ')}]`
}

function shown (value) {
  if (typeof value !== 'number' || Number.isInteger(value)) return String(value ?? '')
  return Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5 ? value.toPrecision(4) : value.toExponential(2)
}

function row (...texts) {
  return element('tr', {}, ...texts.map(text => element('td', { text })))
}

export function input ({ name, type, dims: sizes, source }) {
  return row(name, type, dims(sizes), source)
}

// An output in two rows: what it is, and its values.
export function output ({ name, type, dims: sizes, min, mean, max, first, more, notFinite }) {
  const numbers = min === undefined ? '' : `min ${shown(min)}, mean ${shown(mean)}, max ${shown(max)}`
  const others = notFinite ? `${notFinite} values are NaN or infinite` : ''
  const lines = [[numbers, others].filter(Boolean).join('; '), first.map(shown).join(', ') + (more ? ', …' : '')]
  const below = element('td', { colSpan: 3 }, ...lines.map(text => element('div', { text })))
  return [row(name, type, dims(sizes)), element('tr', { className: 'values' }, below)]
}
