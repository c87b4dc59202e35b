// The page: files are chosen, findings shown, the picture drawn, the model converted and run. Python and onnxruntime
// are in workers, which start when they are needed first.

import { Remote } from './remote.js'
import { download, element, finding, input, output } from './views.js'

const $ = id => document.getElementById(id)
const state = { files: {}, arrays: {}, seed: 2018, turn: 0, tensors: [] }
let python, runner // promises of workers

const settings = fetch('settings.json').then(async answer => {
  const found = await answer.json()
  const absolute = address => new URL(address, location).href // of a worker, no address is relative to this page
  const locations = Object.entries(found.locations).map(([name, address]) => [name, absolute(address)])
  return { ...found, locations: Object.fromEntries(locations), wheel: absolute(found.wheel) }
})

// ---- States of the page

function show (...ids) {
  for (const id of ['progress', 'error', 'result']) $(id).hidden = !ids.includes(id)
  document.body.className = ids.length ? 'small' : ''
}

function report ({ text, done, total }) {
  $('status').textContent = `${text} …`
  if (total) Object.assign($('bar'), { value: done, max: total })
  else $('bar').removeAttribute('value')
  $('once').hidden = !total
}

function fail (reason) {
  $('reason').textContent = reason
  show('error')
}

// ---- Workers

async function ask (name, ...values) {
  python ??= settings.then(found => Remote.start('python.js', found, report))
  const started = await python.catch(error => { python = undefined; throw error })
  return started.call(name, ...values)
}

async function runs (name, ...values) {
  runner ??= settings.then(found => Remote.start('runner.js', found))
  const started = await runner.catch(error => { runner = undefined; throw error })
  return started.call(name, ...values)
}

// ---- Files to results

function options () {
  const lines = text => text.split(/\s*\n\s*/).filter(Boolean)
  return {
    inputs: lines($('inputs').value.trim()),
    outputs: $('outputs').value.split(/[\s,]+/).filter(Boolean),
    target: $('target').value,
    seed: state.seed,
    ...$('net').value && !$('net-row').hidden && { net: $('net').value },
    ...$('opset').value && { opset: Number($('opset').value) }
  }
}

function take (files, arrays = {}) {
  Object.assign(state, { files, arrays, seed: 2018 })
  const names = Object.keys(files)
  $('chosen').hidden = false
  $('chosen').textContent = names.join(', ')
  $('net-row').hidden = names.length < 2 || names.some(name => name.endsWith('.onnx'))
  const unchosen = element('option', { value: '', text: 'by the names of the files' })
  $('net').replaceChildren(unchosen, ...names.map(text => element('option', { text })))
  for (const id of ['inputs', 'outputs', 'opset']) $(id).value = ''
  return convert()
}

async function convert () {
  const turn = ++state.turn
  const current = () => turn === state.turn
  try {
    report({ text: 'Starting' })
    show('progress')
    const chosen = options()
    const found = await ask('findings', state.files, chosen)
    if (!current()) return
    if (found.error) return fail(found.error)
    showFindings(found)
    report({ text: 'Drawing' })
    show('progress', 'result')
    const drawn = await ask('picture', state.files, chosen)
    if (!current()) return
    showPicture(drawn)
    if (found.findings.some(each => each.severity === 'error')) return show('result')
    report({ text: 'Converting' })
    const converted = await ask('convert', state.files, chosen)
    if (!current()) return
    if (converted.error) return fail(converted.error)
    showConverted(converted)
    if (converted.files) await prepare(converted.files, chosen, current)
    if (current()) show('result')
  } catch (error) {
    if (current()) fail(error.message)
  }
}

function showFindings ({ summary, findings }) {
  const refused = findings.some(each => each.severity === 'error')
  $('summary').className = refused ? 'refused' : 'covered'
  $('summary').textContent = summary ?? 'The model does not convert.'
  $('list').replaceChildren(...findings.map(each => finding(each, describe)))
  $('options').open = refused
  $('converted').hidden = $('run').hidden = true
}

function describe (text) {
  const name = text.slice(0, text.indexOf('='))
  const others = $('inputs').value.split('\n').filter(line => line.trim() && !line.startsWith(`${name}=`))
  $('inputs').value = [...others, text].join('\n')
  $('options').open = true
  $('inputs').focus()
}

function showPicture ({ html }) {
  $('picture').hidden = !html
  if (!html) return
  const frame = $('picture').querySelector('iframe')
  state.picture = html
  frame.src = 'picture.html' // loads anew, and asks for the picture
}

addEventListener('message', ({ data, source }) => {
  const frame = $('picture').querySelector('iframe')
  if (data === 'ready' && source === frame.contentWindow) source.postMessage(state.picture, '*')
})

function showConverted ({ files = [], lines = [], findings }) {
  $('converted').hidden = false
  for (const link of $('downloads').querySelectorAll('a')) URL.revokeObjectURL(link.href)
  $('downloads').replaceChildren(...files.map(download))
  $('lines').textContent = lines.join('\n')
  $('notes').replaceChildren(...findings.map(each => finding(each)))
}

// ---- Running

async function prepare (files, chosen, current) {
  const given = Object.entries(state.files).map(([name, data]) => ({ name, data }))
  const model = [...files, ...given].find(file => file.name.endsWith('.onnx')).data
  report({ text: 'Preparing inputs' })
  state.model = model
  state.loaded = false
  $('verdict').textContent = ''
  $('results').hidden = true
  const sample = Object.keys(state.arrays).length > 0
  const made = sample ? await ask('arrays', state.arrays) : await ask('synthesize', state.files, chosen)
  if (!current()) return
  $('run').hidden = false
  setTensors(made, sample ? 'the example' : 'made up')
}

function setTensors ({ tensors = [], error, findings = [] }, source) {
  const problem = error ?? findings.map(each => each.reason).join('\n')
  if (problem) {
    verdict(`There are no inputs yet: ${problem}`, true)
  } else {
    const given = new Set(tensors.map(tensor => tensor.name)) // files may hold some of the inputs
    const kept = source.startsWith('file') ? state.tensors.filter(tensor => !given.has(tensor.name)) : []
    state.tensors = [...kept, ...tensors.map(tensor => ({ ...tensor, source }))]
    verdict('')
  }
  $('tensors').tBodies[0].replaceChildren(...state.tensors.map(input))
}

function verdict (text, failed = false) {
  $('verdict').textContent = text
  $('verdict').className = failed ? 'failed' : ''
}

async function run () {
  try {
    $('start').disabled = true
    if (!state.loaded) {
      verdict('Loading the model …')
      await runs('load', state.model)
      state.loaded = true
    }
    verdict('Running …')
    const { outputs, milliseconds } = await runs('run', state.tensors)
    verdict(`Ran on onnxruntime-web in ${milliseconds.toFixed(1)} ms.`)
    $('results').hidden = false
    $('results').querySelector('tbody').replaceChildren(...outputs.flatMap(output))
  } catch (error) {
    $('results').hidden = true
    verdict(`It does not run: ${error.message}`, true)
  } finally {
    $('start').disabled = false
  }
}

// ---- What the user does

// Files are a model, or, while one is shown, arrays for its inputs.
async function choose (files) {
  try {
    const read = Array.from(files, async file => [file.name, new Uint8Array(await file.arrayBuffer())])
    const found = Object.fromEntries(await Promise.all(read))
    const names = Object.keys(found)
    if (names.length) await (names.every(name => /\.np[yz]$/.test(name)) ? useArrays(found) : take(found))
  } catch (error) {
    fail(`The files cannot be read: ${error.message}`)
  }
}

// What is dropped: files, and the files of folders.
async function dropped (items) {
  const found = Array.from(items, item => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() })) // before any wait
  const files = await Promise.all(found.map(({ entry, file }) => entry?.isDirectory ? inFolder(entry) : [file]))
  return files.flat().filter(Boolean)
}

async function inFolder (folder) {
  const reader = folder.createReader()
  const read = () => new Promise((resolve, reject) => reader.readEntries(resolve, reject))
  const entries = []
  for (let some = await read(); some.length; some = await read()) entries.push(...some) // up to 100 each time
  const files = entries.filter(entry => entry.isFile)
  return Promise.all(files.map(entry => new Promise((resolve, reject) => entry.file(resolve, reject))))
}

async function useArrays (found) {
  if ($('result').hidden || $('run').hidden) return fail('Arrays are the inputs of a model: choose that first.')
  try {
    setTensors(await ask('arrays', found), `file ${Object.keys(found).join(', ')}`)
  } catch (error) {
    verdict(error.message, true)
  }
}

function picked (event) {
  const { files } = event.target
  choose([...files]).then(() => { event.target.value = '' })
}

$('files').addEventListener('change', picked)
$('arrays').addEventListener('change', picked)
$('again').addEventListener('click', () => Object.keys(state.files).length ? convert() : show())
$('start').addEventListener('click', run)
$('form').addEventListener('submit', event => { event.preventDefault(); convert() })
$('synthesize').addEventListener('click', async () => {
  state.seed += 1
  try {
    setTensors(await ask('synthesize', state.files, options()), 'made up')
  } catch (error) {
    verdict(error.message, true)
  }
})
for (const button of document.querySelectorAll('[data-example]')) {
  button.addEventListener('click', async () => {
    try {
      report({ text: 'Starting' })
      show('progress')
      const { files, arrays } = await ask('example', button.dataset.example)
      await take(files, arrays)
    } catch (error) {
      fail(error.message)
    }
  })
}

let inside = 0 // of the page, and of how many elements in it, is what is dragged
addEventListener('dragenter', () => document.documentElement.classList.toggle('over', ++inside > 0))
addEventListener('dragleave', () => document.documentElement.classList.toggle('over', --inside > 0))
addEventListener('dragover', event => event.preventDefault())
addEventListener('drop', event => {
  event.preventDefault()
  inside = 0
  document.documentElement.classList.remove('over')
  dropped(event.dataTransfer.items).then(choose, error => fail(`The files cannot be read: ${error.message}`))
})
document.body.dataset.ready = 'yes'
