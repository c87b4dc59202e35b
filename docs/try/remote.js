// A worker that is asked, and answers. Its code is fetched and started from a blob, so that the policy of this page
// holds for it too: a worker from a file of its own would have none.

export class Remote {
  #worker
  #waiting = new Map()
  #count = 0

  // Start the worker of a file. It gets the settings first; onProgress is called with what it reports meanwhile.
  static async start (file, settings, onProgress = () => {}) {
    const answer = await fetch(file)
    if (!answer.ok) throw new Error(`${file} cannot be loaded: ${answer.status} ${answer.statusText}`)
    const url = URL.createObjectURL(new Blob([await answer.text()], { type: 'text/javascript' }))
    const remote = new Remote()
    remote.#worker = new Worker(url, { type: 'module' })
    remote.#worker.onmessage = ({ data }) => data.progress ? onProgress(data.progress) : remote.#settle(data)
    remote.#worker.onerror = event => remote.#fail(new Error(event.message || `${file} cannot be started`))
    try {
      await remote.call('start', settings)
    } catch (error) {
      remote.#worker.terminate()
      throw error
    } finally {
      URL.revokeObjectURL(url)
    }
    return remote
  }

  // Ask for one of the worker's functions, and return a promise of what it returns.
  call (name, ...values) {
    const id = ++this.#count
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#worker.postMessage({ id, name, values })
    })
  }

  #settle ({ id, result, error }) {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error === undefined) waiting.resolve(result)
    else waiting.reject(new Error(error))
  }

  #fail (error) {
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
