// What the studio tells of itself: loading, fetching, a worker that was started anew. A browser holds six connections to one
// host, so one shared worker listens for all tabs; where there is none, the tab listens itself.

/** @typedef {{ kind: string, [name: string]: any }} Told */

/** What the shared worker runs (event_worker.js): a file of its own, since the policy lets nothing be made up. */
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
