// Server events: loading, downloads, restarts of a worker. A browser opens at most six connections per host, so one shared worker
// listens for all tabs; without shared workers each tab listens itself.

/** @typedef {{ kind: string, [name: string]: any }} Told */

/** The shared worker (event_worker.js): a separate file, since the policy forbids blob URLs. */
const LISTENER = "/events.js";
const RECONNECT = 2000; // milliseconds after which a stream that was refused is tried again

/** @param {(told: Told) => void} onEvent */
export function listenToEvents(onEvent) {
  if ("SharedWorker" in window) {
    try {
      const worker = new SharedWorker(LISTENER, { name: "qkv-events" });
      worker.port.onmessage = ({ data }) => onEvent(data);
      worker.onerror = () => listenDirectly(onEvent);
      worker.port.start();
      return;
    } catch {
      // Some browsers name it and forbid it.
    }
  }
  listenDirectly(onEvent);
}

/** As the shared worker does. @param {(told: Told) => void} onEvent */
function listenDirectly(onEvent) {
  const stream = new EventSource("/api/events");
  stream.onmessage = ({ data }) => onEvent(JSON.parse(data));
  stream.onopen = () => onEvent({ kind: "connected" });
  stream.onerror = async () => {
    if (stream.readyState !== EventSource.CLOSED) return onEvent({ kind: "lost", locked: false });
    const status = await fetch(LISTENER).then((answer) => answer.status, () => 0);
    onEvent({ kind: "lost", locked: status === 403 });
    setTimeout(() => listenDirectly(onEvent), RECONNECT);
  };
}
