// The messages of docs/try/python.js, answered by the same functions in CPython, behind the server of the test.

function pack (value) {
  if (value instanceof Uint8Array) return { bytes: btoa(Array.from(value, byte => String.fromCharCode(byte)).join('')) }
  if (Array.isArray(value)) return value.map(pack)
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, pack(v)]))
  return value
}

function unpack (value) {
  if (Array.isArray(value)) return value.map(unpack)
  if (typeof value?.bytes === 'string') return Uint8Array.from(atob(value.bytes), char => char.charCodeAt(0))
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, unpack(v)]))
  return value
}

let server

self.onmessage = async ({ data: { id, name, values } }) => {
  if (name === 'start') {
    server = new URL('door/', values[0].wheel).href
    for (const [done, text] of ['Loading Python', 'Loading numpy', 'Python is ready'].entries()) {
      postMessage({ progress: { text, done, total: 2 } })
      await new Promise(resolve => setTimeout(resolve, 20))
    }
    return postMessage({ id, result: null })
  }
  const answer = await fetch(server + name, { method: 'POST', body: JSON.stringify(pack(values)) })
  const text = await answer.text()
  if (answer.ok) postMessage({ id, result: unpack(JSON.parse(text)) })
  else postMessage({ id, error: text })
}
