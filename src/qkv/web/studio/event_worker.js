// The shared worker: one event stream for all tabs of this browser. It isn't part of the page's script.

const RETRY = 2000; // milliseconds after which a stream that was refused is tried again

/** @type {Set<MessagePort>} */
const ports = new Set();
/** The latest event of each kind, for tabs opened later. @type {Map<string, any>} */
const latest = new Map();

/** @param {any} data */
function tellAll(data) {
  latest.set(["connected", "lost"].includes(data.kind) ? "connection" : data.kind, data);
  for (const port of ports) port.postMessage(data);
}

/** A browser tries again by itself where nobody answers, but never after an answer that isn't a stream (403: another key). */
function connect() {
  const stream = new EventSource("/api/events");
  stream.onmessage = ({ data }) => tellAll(JSON.parse(data));
  stream.onopen = () => tellAll({ kind: "connected" });
  stream.onerror = async () => {
    if (stream.readyState !== EventSource.CLOSED) return tellAll({ kind: "lost", locked: false });
    const status = await fetch("/events.js").then((answer) => answer.status, () => 0);
    tellAll({ kind: "lost", locked: status === 403 });
    setTimeout(connect, RETRY);
  };
}
connect();

/** @type {any} */ (self).onconnect = (/** @type {MessageEvent} */ event) => {
  const [port] = event.ports;
  ports.add(port);
  for (const data of latest.values()) port.postMessage(data);
};
