// Runs ONNX models in onnxruntime for Node.js, or in its build for web pages: node node_worker.js PACKAGE FOLDER.
// Started by deployed.py, with the frames that caffe2_worker.py describes.
'use strict'

const fs = require('fs')
const path = require('path')

const [name, folder] = process.argv.slice(2)
const entry = require.resolve(name) // above this file, and in NODE_PATH
if (folder === undefined) process.exit(0) // it is only asked whether the package is there
const version = packageVersion(entry)
const ort = require(entry)
process.chdir(folder)
if (name === 'onnxruntime-web') ort.env.wasm.numThreads = 1
console.log = console.error // what the runtime prints must not fall between the frames

// By NumPy's name of a type, little endian: ONNX Runtime's name, and the array of it.
const TYPES = {
  '<f4': ['float32', Float32Array], '<f8': ['float64', Float64Array], '<f2': ['float16', Uint16Array],
  '|b1': ['bool', Uint8Array], '|i1': ['int8', Int8Array], '|u1': ['uint8', Uint8Array],
  '<i2': ['int16', Int16Array], '<u2': ['uint16', Uint16Array], '<i4': ['int32', Int32Array],
  '<u4': ['uint32', Uint32Array], '<i8': ['int64', BigInt64Array], '<u8': ['uint64', BigUint64Array],
}
const CODES = Object.fromEntries(Object.entries(TYPES).map(([code, [type]]) => [type, code]))

function packageVersion (entry) {
  for (let at = path.dirname(entry); at !== path.dirname(at); at = path.dirname(at)) {
    const file = path.join(at, 'package.json')
    if (fs.existsSync(file)) {
      const found = JSON.parse(fs.readFileSync(file, 'utf8'))
      if (found.name === name) return found.version
    }
  }
  return 'unknown'
}

function tensor (entry, body, offset) {
  if (entry.texts) return new ort.Tensor('string', entry.texts, entry.shape)
  const [type, Values] = TYPES[entry.dtype]
  const bytes = body.subarray(offset, offset + entry.bytes)
  const copy = new Uint8Array(bytes).buffer // aligned, which a part of the body need not be
  return new ort.Tensor(type, new Values(copy), entry.shape)
}

function pack (header, values) {
  const parts = []
  const listed = Object.entries(values).map(([name, value]) => {
    if (value.type === 'string') return { name, shape: value.dims, texts: value.data }
    const data = value.data
    const part = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
    parts.push(part)
    return { name, shape: value.dims, dtype: CODES[value.type], bytes: part.length }
  })
  const text = Buffer.from(JSON.stringify({ ...header, values: listed }))
  const lengths = Buffer.alloc(16)
  lengths.writeBigUInt64BE(BigInt(text.length), 0)
  lengths.writeBigUInt64BE(BigInt(parts.reduce((sum, part) => sum + part.length, 0)), 8)
  return Buffer.concat([lengths, text, ...parts])
}

const models = new Map()

async function answer (header, values) {
  for (const key of header.forget) models.delete(key)
  if (header.do === 'about') return [{ versions: { [name]: version } }, {}]
  if (header.do === 'load') {
    const bytes = values.model.data
    models.set(header.key, await ort.InferenceSession.create(bytes))
    return [{}, {}]
  }
  const session = models.get(header.key)
  const feeds = {}
  for (const [name, value] of Object.entries(values)) feeds[name] = value
  for (const name of Object.keys(feeds)) {
    if (!session.inputNames.includes(name)) {
      throw new Error(`'${name}' has a default, which the runtime takes as a constant`)
    }
  }
  const found = await session.run(feeds, header.outputs)
  return [{}, found]
}

function read (size) {
  const buffer = Buffer.alloc(size)
  let done = 0
  while (done < size) {
    let count
    try {
      count = fs.readSync(0, buffer, done, size - done)
    } catch (error) {
      if (error.code === 'EAGAIN') continue
      throw error
    }
    if (count === 0) process.exit(0)
    done += count
  }
  return buffer
}

function write (buffer) {
  for (let done = 0; done < buffer.length;) {
    try {
      done += fs.writeSync(1, buffer, done)
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error
    }
  }
}

async function main () {
  for (;;) {
    const lengths = read(16)
    const { values: listed, ...header } = JSON.parse(read(Number(lengths.readBigUInt64BE(0))).toString())
    const body = read(Number(lengths.readBigUInt64BE(8)))
    const values = {}
    let offset = 0
    for (const entry of listed) {
      values[entry.name] = tensor(entry, body, offset)
      offset += entry.bytes || 0
    }
    let response
    try {
      response = await answer(header, values)
    } catch (error) {
      response = [{ error: String((error && error.message) || error) }, {}]
    }
    write(pack(...response))
  }
}

main()
