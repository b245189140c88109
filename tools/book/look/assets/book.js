// Figures in frames: each is opened when it comes into view, says how tall it is, and is told whether the book is dark.

const frames = () => /** @type {NodeListOf<HTMLIFrameElement>} */ (document.querySelectorAll("figure.qkv iframe"));
const theme = () => (document.body.dataset.mdColorScheme === "slate" ? "dark" : "light");

function tell(/** @type {HTMLIFrameElement} */ frame) {
  frame.contentWindow?.postMessage({ qkv: "theme", theme: theme() }, "*");
}

addEventListener("message", ({ data, source }) => {
  if (data?.qkv !== "height" || !Number.isFinite(data.height)) return;
  for (const frame of frames())
    if (frame.contentWindow === source) {
      frame.style.height = `${Math.ceil(data.height)}px`;
      tell(frame);
    }
});
const opening = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    const frame = /** @type {HTMLIFrameElement} */ (target);
    if (!isIntersecting || !frame.dataset.src) continue;
    opening.unobserve(frame);
    frame.src = `${frame.dataset.src}&theme=${theme()}`;
  }
});
frames().forEach((frame) => opening.observe(frame));
new MutationObserver(() => frames().forEach(tell)).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
