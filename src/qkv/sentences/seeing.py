"""What `qkv see` says."""

SENTENCES: dict[str, tuple[str, str]] = {
    "see.demo": ("{name}: {model} on “{text}”", "{name}：{model}，文本“{text}”"),
    "see.what": (
        "{model} · {part}: {layers} layers × {heads} heads on {tokens} tokens",
        "{model} · {part}：{layers} 层 × {heads} 个头，{tokens} 个词元",
    ),
    "see.apart": (
        "{one} doesn't go with {other}: leave one of them out",
        "{one} 不能与 {other} 同用：请去掉其中一个",
    ),
    "see.to": (
        "--to is the word that is looked at: say which word looks, too, --from WORD",
        "--to 是被看的词：请同时用 --from 词 说明是哪个词在看",
    ),
    "see.demo.none": (
        "no trace of “{text}” ships with qkv: give one of the texts above, or none",
        "qkv 没有附带“{text}”的记录：请给上面的某段文本，或不给文本",
    ),
    "see.joined": (
        "(parts of characters are joined: {groups} characters and tokens; --tokens shows every token)",
        "（半个字的词元已合并成整字：共 {groups} 个字和词元；--tokens 可逐个显示）",
    ),
    "see.cut": (
        "(cut: after {most} tokens the translation had not ended; what is shown is its beginning)",
        "（已截断：译文到 {most} 个词元还没有结束，这里只是它的开头）",
    ),
    "see.links": (
        "Heads that link {one} to {other} (layer.head, weight):",
        "把 {one} 和 {other} 连起来的头（层.头，权重）：",
    ),
    "see.head": (
        "{part} layer {layer}, head {head}: each row is a token that looks, and its numbers add up to 1",
        "{part}第 {layer} 层第 {head} 个头：每行是一个看的词，各数之和为 1",
    ),
    "see.head.cross": (
        "cross layer {layer}, head {head}: each row is a token about to be said, and where in the source it looks (sum 1)",
        "交叉注意力第 {layer} 层第 {head} 个头：每行是即将说出的词元，以及它看源文的哪里（每行之和为 1）",
    ),
    "see.head.sink": (
        "{part} layer {layer}, head {head}: each row is a token that looks; its numbers and what its sink takes add up to 1",
        "{part}第 {layer} 层第 {head} 个头：每行是一个看的词，各数与汇点分走的份额之和为 1",
    ),
    "see.head.long": (
        "{part} layer {layer}, head {head}: tokens that look downwards, those looked at across",
        "{part}第 {layer} 层第 {head} 个头：纵向是看的词元，横向是被看的词元",
    ),
    "see.pooled": (
        "(a long text: each cell is the mean of {rows} × {cols} weights, shaded relative to the strongest cell)",
        "（文本较长：每格是 {rows} × {cols} 个权重的平均值，颜色相对于最强的一格）",
    ),
    "see.narrow": (
        "(the terminal is narrow: each column is the sum of {n} neighbouring keys, labelled by the first)",
        "（终端较窄：每列是相邻 {n} 个键的权重之和，列标签是其中第一个）",
    ),
    "see.turned": (
        "{word} stands at position {place}: rotary positions turned its q, {pairs} pairs of numbers, each at its own speed:",
        "{word} 在位置 {place}：旋转位置编码转动它的 q，共 {pairs} 对数，每对的转速不同：",
    ),
    "see.row": (
        "The row of {word} in {layer}.{head}, step by step (d = {d}), strongest keys first:",
        "{layer}.{head} 中 {word} 这一行，一步一步算（d = {d}），从权重大的键开始：",
    ),
    "see.row.part": (
        "{word} is {n} tokens, which the map joins; q·k is between single tokens, so here is the last of them, {last}:",
        "{word} 是 {n} 个词元，图中已合并；q·k 是单个词元之间的，所以下面是其中最后一个，{last}：",
    ),
    "see.row.bare": (
        "The row of {word} in {layer}.{head}, strongest keys first; q, k and v, and with them the steps, aren't there (--eager):",
        "{layer}.{head} 中 {word} 这一行，从权重大的键开始；没有 q、k、v，因此没有计算步骤（--eager）：",
    ),
    "see.layers": (
        "Attention is in these layers alone: {layers}. The others have none.",
        "只有这些层有注意力：{layers}。其余的层没有。",
    ),
    "see.row.rest": ("and {n} more keys, which share {sum}", "还有 {n} 个键，共占 {sum}"),
    "see.row.output": ("Σ weight × V:", "Σ 权重 × V："),
    "see.row.same": (
        "The same to {difference} as the model's own kernel gives from these q, k and v.",
        "与模型自己的内核用同样的 q、k、v 算出的结果相差不超过 {difference}。",
    ),
    "see.saved": ("wrote {path}", "已写入 {path}"),
    "see.page": (
        "wrote {path} ({size}): open it in a browser, no network needed",
        "已写入 {path}（{size}）：用浏览器打开，不需要网络",
    ),
    "see.page.asked": (
        "Layer {layer} of the {part}, which was asked for, did not fit into the page: it is there as an overview only.",
        "指定的{part}第 {layer} 层放不进网页：网页里只有它的概览。",
    ),
    "see.page.some": (
        "The page has room for these of the {layers} {part} layers in full: {whole}. The others are there as an overview.",
        "网页放得下{part} {layers} 层中的这些层，可逐格细看：{whole}。其余各层只有概览。",
    ),
    "see.page.none": (
        "The page has no room for any of the {layers} {part} layers in full: they are there as an overview.",
        "网页放不下{part} {layers} 层中的任何一层：它们只有概览。",
    ),
    "see.shipped": (
        "The model isn't here ({reason}).\nThis is the same sentence from the trace that ships with qkv, recorded from that "
        "model; any other text needs the model itself.",
        "模型不在本机（{reason}）。\n下面是 qkv 附带的同一句话的记录，由该模型生成；其他文本需要模型本身。",
    ),
    "see.transformers": (
        "{model} could not be opened by transformers either: {error}",
        "transformers 也打不开 {model}：{error}",
    ),
    "see.without.model": (
        "--without needs the model itself, not a kept trace: give --model",
        "--without 需要模型本身，不能用保存的记录：请给出 --model",
    ),
    "see.without": (
        "Without {heads}, {moved} of the next token's probability goes elsewhere:",
        "去掉 {heads} 后，下一个词元的概率有 {moved} 转移到别处：",
    ),
    "see.without.said": (
        "Without {heads} the translation changes.\nbefore: {before}\nwithout: {after}",
        "去掉 {heads} 后译文变了。\n原来：{before}\n去掉后：{after}",
    ),
    "see.without.same": (
        "Without {heads} the translation stays the same: {before}",
        "去掉 {heads} 后译文不变：{before}",
    ),
    "see.suffix": ("{file} should end in {endings}", "{file} 应以 {endings} 结尾"),
    "see.watch.model": (
        "--watch shows a run: give its folder, --model RUN",
        "--watch 用来看一次训练：请给出它的文件夹，--model RUN",
    ),
    "see.watch.none": (
        '{run} kept no attention: train with  qkv train … --watch "a sentence"',
        '{run} 没有保存注意力：训练时请加  qkv train … --watch "一句话"',
    ),
    "see.watch.from": (
        "--watch follows the link between two words: give --to as well as --from",
        "--watch 跟踪两个词之间的连接：除了 --from，还要给 --to",
    ),
    "see.watch.page": (
        "The page is of the last evaluation, step {step}.",
        "网页是最后一次评估的，第 {step} 步。",
    ),
    "see.watch": (
        "How layer {layer}, head {head} formed, over {n} evaluations:",
        "第 {layer} 层第 {head} 个头的形成过程，共 {n} 次评估：",
    ),
    "importance.title": (
        "{n} heads of {model}, by how much the loss on this text changes without each (layer.head):",
        "{model} 的 {n} 个头，按去掉后在这段文本上损失的变化排列（层.头）：",
    ),
    "importance.part": ("{used} of the file's {tokens} tokens are used", "用了文件 {tokens} 个词元中的 {used} 个"),
    "importance.rest": (
        "{helped} heads lower the loss, {others} don't, on this text.",
        "在这段文本上，{helped} 个头降低了损失，{others} 个没有。",
    ),
}
