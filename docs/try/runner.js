// The worker that runs a model, by onnxruntime-web. Tensors are those of caffe2_cli.browser: name, type, dims, data.

const ARRAYS = {
  bool: Uint8Array, float16: Uint16Array, float32: Float32Array, float64: Float64Array, int8: Int8Array,
  int16: Int16Array, int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array, uint16: Uint16Array,
  uint32: Uint32Array, uint64: BigUint64Array
}
const SHOWN = 6 // values of an output

let ort, session

async function start ({ locations: { onnxruntime: base }, integrity }) {
  const urls = {}
  for (const [name, digest] of Object.entries(integrity.onnxruntime)) {
    const answer = await fetch(base + name, { integrity: digest }).catch(error => {
      throw new Error(`${base}${name} cannot be loaded: ${error.message}`)
    })
    if (!answer.ok) throw new Error(`${base}${name} cannot be loaded: ${answer.status} ${answer.statusText}`)
    const type = name.endsWith('.wasm') ? 'application/wasm' : 'text/javascript'
    urls[name] = URL.createObjectURL(new Blob([await answer.arrayBuffer()], { type }))
  }
  ort = await import(urls['ort.wasm.min.mjs'])
  ort.env.wasm.wasmPaths = { mjs: urls['ort-wasm-simd-threaded.mjs'], wasm: urls['ort-wasm-simd-threaded.wasm'] }
  ort.env.wasm.numThreads = 1 // more need headers that a plain web server does not send
}

async function load (model) {
  await session?.release()
  session = undefined
  session = await ort.InferenceSession.create(model)
  return { inputs: session.inputNames }
}

function toTensor ({ type, dims, data }) {
  if (type === 'string') return new ort.Tensor('string', data, dims)
  const Kind = ARRAYS[type]
  return new ort.Tensor(type, new Kind(data.slice().buffer), dims) // a copy is aligned
}

async function run (tensors) {
  const given = Object.fromEntries(tensors.map(tensor => [tensor.name, tensor]))
  const missing = session.inputNames.filter(name => !given[name])
  if (missing.length) throw new Error(`no array is given for the input ${missing.join(', ')}`)
  const feeds = Object.fromEntries(session.inputNames.map(name => [name, toTensor(given[name])]))
  const begin = performance.now()
  const found = await session.run(feeds)
  const milliseconds = performance.now() - begin
  return { milliseconds, outputs: session.outputNames.map(name => describe(name, found[name])) }
}

function fromHalf (bits) {
  const exponent = bits >> 10 & 31
  const fraction = (bits & 1023) / 1024
  const sign = bits >> 15 ? -1 : 1
  if (exponent === 31) return fraction ? NaN : sign * Infinity
  return sign * (exponent ? (1 + fraction) * 2 ** (exponent - 15) : fraction * 2 ** -14)
}

function describe (name, { type, dims, data }) {
  const about = { name, type, dims: [...dims], more: data.length > SHOWN }
  if (type === 'string') return { ...about, first: [...data.slice(0, SHOWN)] }
  const halves = type === 'float16' && data instanceof Uint16Array // newer browsers have Float16Array
  const values = Array.from(data, value => halves ? fromHalf(value) : Number(value))
  const finite = values.filter(Number.isFinite)
  const found = { ...about, first: values.slice(0, SHOWN), notFinite: values.length - finite.length }
  if (!finite.length) return found
  const [sum, min, max] = finite.reduce(
    ([sum, min, max], value) => [sum + value, Math.min(min, value), Math.max(max, value)], [0, Infinity, -Infinity]
  )
  return { ...found, min, max, mean: sum / finite.length }
}

const CALLS = { start, load, run }

self.onmessage = async ({ data: { id, name, values } }) => {
  try {
    postMessage({ id, result: await CALLS[name](...values) })
  } catch (error) {
    postMessage({ id, error: error.message })
  }
}
