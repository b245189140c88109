// The shared worker: one stream of events for all tabs of this browser. It stands alone and is no part of the page's script.

/** @type {Set<MessagePort>} */
const ports = new Set();
/** The last word on each thing, for tabs that come later. @type {Map<string, any>} */
const latest = new Map();

/** @param {any} data */
function tellAll(data) {
  latest.set(["connected", "lost"].includes(data.kind) ? "connection" : data.kind, data);
  for (const port of ports) port.postMessage(data);
}

const stream = new EventSource("/api/events");
stream.onmessage = ({ data }) => tellAll(JSON.parse(data));
stream.onopen = () => tellAll({ kind: "connected" });
stream.onerror = () => tellAll({ kind: "lost" });

/** @type {any} */ (self).onconnect = (/** @type {MessageEvent} */ event) => {
  const [port] = event.ports;
  ports.add(port);
  for (const data of latest.values()) port.postMessage(data);
};
