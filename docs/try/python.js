// The worker that converts: Pyodide, and in it the project's own packages. What it is asked for are the functions of
// caffe2_cli.browser; files go in as Uint8Array by name, and bytes come out so.

let python, door

function report (text, done, total) {
  postMessage({ progress: { text, done, total } })
}

// Make every file of the settings that is fetched be the one of this digest.
function checkIntegrity (base, digests) {
  const plain = self.fetch.bind(self)
  const known = Object.fromEntries(Object.entries(digests).map(([name, digest]) => [base + name, digest]))
  self.fetch = (resource, options) => {
    const integrity = known[String(resource?.url ?? resource)]
    return plain(resource, integrity ? { ...options, integrity } : options)
  }
}

async function fetched (url) {
  const answer = await self.fetch(url).catch(error => { throw new Error(`${url} cannot be loaded: ${error.message}`) })
  if (!answer.ok) throw new Error(`${url} cannot be loaded: ${answer.status} ${answer.statusText}`)
  return answer
}

async function imported (url) { // import() itself checks no digest
  const blob = new Blob([await (await fetched(url)).text()], { type: 'text/javascript' })
  return import(URL.createObjectURL(blob))
}

async function start ({ locations, distribution, requirements, integrity, wheel }) {
  const { pyodide: base, packages, index } = locations
  const total = distribution.length + requirements.length + 3
  let done = 0
  report('Loading Python', done, total)
  checkIntegrity(base, integrity.pyodide)
  const { loadPyodide } = await imported(`${base}pyodide.mjs`)
  const { default: createPyodideModule } = await imported(`${base}pyodide.asm.mjs`)
  const lockFileContents = await (await fetched(`${base}pyodide-lock.json`)).text()
  python = await loadPyodide({ indexURL: base, packageBaseUrl: packages, lockFileContents, createPyodideModule })
  for (const name of distribution) {
    report(`Loading ${name}`, ++done, total)
    await load(name, packages)
  }
  const micropip = python.pyimport('micropip')
  for (const requirement of requirements) {
    report(`Loading ${requirement}`, ++done, total)
    await micropip.install.callKwargs(requirement, { index_urls: index })
  }
  report('Loading caffe2-bridge', ++done, total)
  await micropip.install.callKwargs(wheel, { deps: false }) // the command line's dependencies are not needed
  report('Starting caffe2-bridge', ++done, total)
  door = python.pyimport('caffe2_cli.browser')
  report('Python is ready', total, total)
}

// loadPackage reports what it cannot load, and goes on.
async function load (name, packages) {
  const failures = []
  await python.loadPackage(name, { errorCallback: text => failures.push(text) })
  if (!python.loadedPackages[name]) throw new Error(`${name} cannot be loaded from ${packages}: ${failures.join('; ')}`)
}

function ask (name, values) {
  const answer = door[name](...values.map(value => python.toPy(value)))
  const plain = answer.toJs({ dict_converter: Object.fromEntries })
  answer.destroy()
  return plain
}

self.onmessage = async ({ data: { id, name, values } }) => {
  try {
    postMessage({ id, result: name === 'start' ? await start(...values) : ask(name, values) })
  } catch (error) {
    postMessage({ id, error: error.message })
  }
}
