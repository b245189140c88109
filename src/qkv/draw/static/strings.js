// What the page says, as key: [English, 中文]. {name} is filled in by `say`.

/** @type {Record<string, [string, string]>} */
export const STRINGS = {
  tokens: ["{n} tokens", "{n} 个词元"],
  "tokens.both": ["{n} tokens look at {m}", "{n} 个词元看 {m} 个词元"],
  shape: ["{layers} layers × {heads} heads", "{layers} 层 × {heads} 头"],
  precision: ["q and k are {dtype}: weights exact to about {error}", "q 和 k 以 {dtype} 保存：权重约精确到 {error}"],
  "precision.none": ["overview only: the text is too long for q and k to fit", "仅有总览：文本太长，放不下 q 和 k"],
  beyond: [
    "longer than the model's context of {context} tokens: exact, but it never learned texts that long",
    "超出模型 {context} 个词元的上下文：数值精确，但模型没有学过这么长的文本",
  ],
  carried: [
    "Whole layers: {whole}. The others as an overview of {rows} × {cols} cells.",
    "完整的层：{whole}。其余各层只有 {rows} × {cols} 格的总览。",
  ],
  language: ["Language", "语言"],
  theme: ["Light or dark", "浅色或深色"],
  light: ["Light", "浅色"],
  dark: ["Dark", "深色"],

  encoder: ["Encoder", "编码器"],
  decoder: ["Decoder", "解码器"],
  cross: ["Cross", "交叉"],
  part: ["Part of the model", "模型的部分"],
  item: ["Text", "文本"],
  "item.n": ["Text {n}", "第 {n} 条文本"],

  overview: ["All heads", "全部注意力头"],
  "overview.help": [
    "A row per layer, a column per head. Each picture is a whole map: queries down, keys across.",
    "每行一层，每列一个头。每幅小图都是整张图：纵向是查询，横向是键。",
  ],
  "overview.grid": ["Heads: arrow keys move, Enter opens", "注意力头：方向键移动，回车打开"],
  head: ["layer {layer}, head {head}", "第 {layer} 层，第 {head} 头"],
  "head.link": ["{name} · most: {from} → {to} {weight}", "{name} · 最强：{from} → {to} {weight}"],
  "head.sink": ["{name} · looks at the first token or at special ones", "{name} · 只看第一个词元或特殊词元"],
  "head.short": ["Layer {layer} · Head {head}", "第 {layer} 层 · 第 {head} 头"],
  layer: ["Layer", "层"],
  "layer.n": ["Layer {n}", "第 {n} 层"],
  "head.word": ["Head", "头"],
  "head.n": ["Head {n}", "第 {n} 头"],
  links: ["Heads that link {from} → {to}", "连接 {from} → {to} 的头"],
  "links.find": ["Which heads link {from} → {to}?", "哪些头连接 {from} → {to}？"],
  "links.busy": ["Looking through the heads…", "正在逐个查看……"],
  "links.part": ["(of the whole layers)", "（仅完整的层）"],

  map: ["Attention map", "注意力图"],
  "map.role": ["attention map", "注意力图"],
  "map.help": [
    "Arrow keys move the crosshair, + and − zoom, 0 shows all. Drag to pan; pinch or Ctrl + wheel to zoom.",
    "方向键移动十字线，+ 和 − 缩放，0 显示全图。拖动平移，双指或 Ctrl + 滚轮缩放。",
  ],
  "map.axes": [
    "Rows: who looks (queries). Columns: what is looked at (keys).",
    "行：谁在看（查询）。列：被看的词元（键）。",
  ],
  "map.pooled": ["each pixel is the largest weight it covers", "每个像素是所覆盖权重中的最大值"],
  "map.overview": [
    "This layer is here as an overview only: each cell is the largest weight of {tall} × {wide} tokens. To have it whole, make the page with layers=[{layer}].",
    "这一层只有总览：每格是 {tall} × {wide} 个词元中的最大权重。要看完整的这一层，请用 layers=[{layer}] 生成页面。",
  ],
  "zoom.in": ["Zoom in", "放大"],
  "zoom.out": ["Zoom out", "缩小"],
  "zoom.all": ["Show all", "显示全图"],
  unit: ["Tokens or words", "词元或单词"],
  "unit.tokens": ["Tokens", "词元"],
  "unit.characters": ["Characters", "整字"],
  "unit.words": ["Words", "单词"],
  scale: ["Colour scale", "颜色刻度"],
  "scale.linear": ["Linear", "线性"],
  "scale.root": ["√", "√"],
  masked: ["hidden by the mask", "被掩码遮住"],
  cell: ["{from} → {to}", "{from} → {to}"],
  "cell.places": ["query {i}, key {j}", "查询 {i}，键 {j}"],
  "cell.said": ["query {from} → key {to}: {weight}", "查询 {from} → 键 {to}：{weight}"],
  "cell.hidden": ["query {from} → key {to}: hidden by the mask", "查询 {from} → 键 {to}：被掩码遮住"],
  hidden: ["hidden", "遮住"],
  chosen: ["{name} is open", "已打开：{name}"],

  lines: ["One token", "单个词元"],
  "lines.from": ["looks at", "在看谁"],
  "lines.to": ["is looked at by", "谁在看它"],
  "lines.way": ["Direction", "方向"],
  "lines.some": ["the {n} strongest of {all}, in the order of the text", "{all} 个中最强的 {n} 个，按文本顺序"],
  "lines.none": ["Nothing may be looked at from here.", "这里什么都不能看。"],
  "lines.pooled": ["This layer is here as an overview only.", "这一层只有总览。"],
  busy: ["computing…", "计算中……"],
  "busy.share": ["computing… {share} %", "计算中…… {share}%"],

  steps: ["How these weights come about", "这些权重是怎么算出来的"],
  "steps.row": ["Row of {token} (query {i})", "{token} 这一行（查询 {i}）"],
  "steps.words": [
    "For every key: multiply q by k and add up (q·k), times {scale}{more}; hide what the mask hides; softmax makes shares that sum to 1; the output is every v times its share, added up.",
    "对每个键：q 与 k 对应相乘再相加（q·k），乘以 {scale}{more}；掩码遮住的去掉；softmax 变成总和为 1 的份额；输出是各个 v 乘以份额后相加。",
  ],
  "steps.bare": [
    "Only the weights were kept (--eager), as the model gave them: without q, k and v there are no steps to show.",
    "这里只保存了模型给出的权重（--eager）：没有 q、k、v，无法显示计算步骤。",
  ],
  "steps.capped": [", bent to ±{cap}", "，压到 ±{cap} 之内"],
  "steps.biased": [", plus a bias", "，加上偏置"],
  "steps.sinks": [" A sink takes a share of its own and gives nothing.", "另有一个汇点分走一份，但不提供任何内容。"],
  "column.key": ["key", "键"],
  "column.dot": ["q·k", "q·k"],
  "column.scaled": ["× {scale}", "× {scale}"],
  "column.capped": ["capped", "压缩后"],
  "column.biased": ["+ bias", "+ 偏置"],
  "column.masked": ["masked", "掩码后"],
  "column.weight": ["weight", "权重"],
  "column.value": ["v", "v"],
  "steps.first": ["first {n} of {all} numbers", "{all} 个数中的前 {n} 个"],
  "steps.sink": ["sink", "汇点"],
  "steps.rest": ["other keys: {n}", "其余的键：{n} 个"],
  "steps.sum": ["sum", "总和"],
  "steps.output": ["output Σ weight · v", "输出 Σ 权重 · v"],
  "steps.all": ["Show all {n} keys", "显示全部 {n} 个键"],
  "steps.few": ["Show the strongest only", "只显示最强的"],
  "steps.some": ["the first {n} of {all} are shown", "只显示 {all} 个中的前 {n} 个"],
  "steps.none": [
    "This layer is here as an overview only: there are no numbers to show.",
    "这一层只有总览，没有可显示的数。",
  ],
  "steps.nov": ["v doesn't fit into this page: the output isn't shown.", "页面放不下 v：不显示输出。"],
  "steps.empty": [
    "This query may look at nothing: its weights and its output are 0.",
    "这个查询什么都不能看：权重和输出都是 0。",
  ],
};

export const LANGUAGES = /** @type {const} */ (["en", "zh"]);

/**
 * The sentence behind a key, in a language, with its values filled in.
 * @param {string} lang
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 */
export function say(lang, key, values = {}) {
  const sentence = STRINGS[key][lang === "zh" ? 1 : 0];
  return sentence.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}
