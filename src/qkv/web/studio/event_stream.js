// What the studio tells of itself: loading, fetching, a worker that was started anew. A browser holds six connections to one
// host, so one shared worker listens for all tabs; where there is none, the tab listens itself.

/** @typedef {{ kind: string, [name: string]: any }} Told */

/** What the shared worker runs (event_worker.js): a file of its own, since the policy lets nothing be made up. */
const LISTENER = "/events.js";
const RECONNECT = 2000; // milliseconds after which a stream that was refused is tried again

/** @param {(told: Told) => void} tell */
export function hear(tell) {
  if ("SharedWorker" in window) {
    try {
      const worker = new SharedWorker(LISTENER, { name: "qkv-events" });
      worker.port.onmessage = ({ data }) => tell(data);
      worker.onerror = () => hearAlone(tell);
      worker.port.start();
      return;
    } catch {
      // Some browsers name it and forbid it.
    }
  }
  hearAlone(tell);
}

/** As the shared worker does. @param {(told: Told) => void} tell */
function hearAlone(tell) {
  const stream = new EventSource("/api/events");
  stream.onmessage = ({ data }) => tell(JSON.parse(data));
  stream.onopen = () => tell({ kind: "connected" });
  stream.onerror = async () => {
    if (stream.readyState !== EventSource.CLOSED) return tell({ kind: "lost", locked: false });
    const status = await fetch(LISTENER).then((answer) => answer.status, () => 0);
    tell({ kind: "lost", locked: status === 403 });
    setTimeout(() => hearAlone(tell), RECONNECT);
  };
}
