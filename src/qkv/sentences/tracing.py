"""Mistakes that looking at attention refuses."""

SENTENCES: dict[str, tuple[str, str]] = {
    "trace.word.absent": (
        "{word} is not a token of the text; near ones: {near}",
        "文本中没有词元 {word}；相近的有：{near}",
    ),
    "trace.word.twice": (
        "{word} occurs {n} times, at {places}: say which, as in  {word}#2  or  the number of the token",
        "{word} 出现了 {n} 次，位置是 {places}：请说明是哪一个，例如  {word}#2，或写词元的编号",
    ),
    "trace.pool": ("pool {pool} is not one of {pools}", "没有 {pool} 这种汇总方式，可用：{pools}"),
    "trace.bins": ("bins is {bins}: give 1 or more", "bins 是 {bins}：请给 1 或更大的数"),
    "trace.place": (
        "there is no token {place}: they count from 0 to {last}",
        "没有第 {place} 个词元：编号是 0 到 {last}",
    ),
    "trace.head": ("there is no head {head}: this layer has 0 … {last}", "没有第 {head} 个头：这一层有 0 … {last}"),
    "trace.layer": ("there is no layer {layer}: this model has 0 … {last}", "没有第 {layer} 层：这个模型有 0 … {last}"),
    "trace.layer.none": (
        "layer {layer} has no attention in this trace; these have: {layers}",
        "这份记录里第 {layer} 层没有注意力；有注意力的层是：{layers}",
    ),
    "trace.item": (
        "there is no item {item} in the batch: it has 0 … {last}",
        "这一批里没有第 {item} 条：有 0 … {last}",
    ),
    "trace.part": (
        "there is no part {part} in this trace: it has {parts}",
        "这份记录里没有 {part} 部分，只有：{parts}",
    ),
    "trace.output": (
        "this trace keeps no output projection of {name}: trace the model anew, or ask for weights alone",
        "这份记录没有保存 {name} 的输出投影：请重新记录，或只看权重",
    ),
    "trace.file": ("{file} is not a readable trace: {error}", "{file} 不是可读的记录文件：{error}"),
    "trace.file.missing": ("there is no trace {file}", "没有记录文件 {file}"),
    "trace.file.version": (
        "{file} is {found}; this version reads {known}",
        "{file} 的格式是 {found}；这个版本能读的是 {known}",
    ),
    "trace.context": (
        "the text has {tokens} tokens and this model learned {context} positions: shorten it",
        "文本有 {tokens} 个词元，而这个模型只学过 {context} 个位置：请缩短文本",
    ),
    "trace.beyond": (
        "the text has {tokens} tokens and the model's context is {context}: the numbers are what the model computes, but it "
        "never learned texts that long",
        "文本有 {tokens} 个词元，而模型的上下文是 {context} 个：各数都是模型实际算出的，但它没有学过这么长的文本",
    ),
    "trace.tokenizer": (
        "a text needs a tokenizer: pass tokenizer=, or give token ids",
        "文本需要分词器：请传入 tokenizer=，或直接给词元编号",
    ),
    "trace.part.encoder": ("encoder", "编码器"),
    "trace.part.decoder": ("decoder", "解码器"),
    "trace.part.cross": ("cross-attention", "交叉注意力"),
    "trace.kind.previous": ("previous token", "前一个词元"),
    "trace.kind.next": ("next token", "后一个词元"),
    "trace.kind.self": ("itself", "自身"),
    "trace.kind.first": ("first token (sink)", "首个词元（汇聚点）"),
    "trace.kind.punctuation": ("punctuation, delimiters", "标点与分隔符"),
    "trace.kind.local": ("local", "邻近"),
    "trace.kind.columns": ("a few keys for all", "全局列（少数几个键）"),
    "trace.kind.duplicate": ("same token before", "先前的相同词元"),
    "trace.kind.induction": ("induction", "归纳"),
    "trace.kind.diagonal": ("diagonal", "对角线"),
    "trace.kind.monotone": ("monotone alignment", "单调对齐"),
    "trace.kind.uniform": ("uniform", "均匀"),
    "trace.kind.mixed": ("mixed", "混合"),
    "trace.kind.none": ("none of these", "都不是"),
    "trace.patterns": ("{part}, {heads} heads on {tokens} tokens", "{part}，{tokens} 个词元上的 {heads} 个头"),
    "trace.patterns.more": ("and {n} more", "另有 {n} 个"),
    "trace.patterns.elsewhere": ("highest: {head}, counted as “{kind}”", "最高的是 {head}，已归入“{kind}”"),
    "trace.patterns.faint": ("highest: {head}, too near to an even head", "最高的是 {head}，与均匀的头相差不够"),
    "trace.patterns.close": ("highest: {head}, but another kind comes close", "最高的是 {head}，但与另一类难以区分"),
    "trace.patterns.uneven": ("highest: {head}, not even enough", "最高的是 {head}，还不够均匀"),
    "trace.patterns.few": ("highest: {head}, on {count} tokens only", "最高的是 {head}，只有 {count} 个词元可以判断"),
    "trace.patterns.column.kind": ("looks at", "看哪里"),
    "trace.patterns.column.heads": ("heads", "头数"),
    "trace.patterns.column.strongest": (
        "strongest: layer.head, score (of an even head)",
        "最强的：层.头、得分（均匀的头的得分）",
    ),
    "trace.patterns.untold": ("this text can't show it", "这段文本看不出来"),
    "trace.patterns.distance": (", mean distance {distance}", "，平均距离 {distance}"),
    "trace.patterns.meaning": (
        "A number is the mean weight on the keys that count (in brackets: of a head that spreads its weight evenly). "
        "It says where a head looks on this text, not what it is for.",
        "数字是落在相应键上的平均权重（括号内：权重均匀分布的头的值）。它说明头在这段文本上看哪里，而不是头的用途。",
    ),
    "trace.induction": (
        "Induction test, {length} random tokens {repeats} times over; a head that spreads its weight evenly gets {baseline}:",
        "归纳测试：{length} 个随机词元重复 {repeats} 遍；权重均匀分布的头得 {baseline}：",
    ),
    "trace.induction.size": (
        "a block of {length} different tokens out of {vocab}, {repeats} times, {batch} blocks: give a length from 2 to "
        "{vocab}, at least 2 repeats and 1 block",
        "从 {vocab} 个词元中取 {length} 个不同的，重复 {repeats} 遍，共 {batch} 组：长度应为 2 到 {vocab}，至少重复 2 遍、1 组",
    ),
    "trace.model": (
        "a model of qkv or of transformers can be traced; this is a {kind}",
        "可以记录 qkv 或 transformers 的模型；这里给的是 {kind}",
    ),
    "trace.registry": (
        "{model} can't be traced: the attention of {classes} doesn't ask transformers for its kernel, so nobody can listen; "
        "for a short text there are the weights that the model gives itself, kept whole: --eager, or trace(…, eager=True)",
        "无法记录 {model}：{classes} 的注意力不向 transformers 要计算函数，因此无从旁听；短文本可以完整保存模型自己给出的权重："
        "--eager，或 trace(…, eager=True)",
    ),
    "trace.version": (
        "transformers {version} can't be listened to; install 5.1 or newer: {command}",
        "无法旁听 transformers {version}；请安装 5.1 或更新的版本：{command}",
    ),
    "trace.none": (
        "{model} can't be traced: none of its modules attends with weights, so there is nothing to see",
        "无法记录 {model}：它没有任何带权重的注意力模块，没有可看的东西",
    ),
    "trace.mask": (
        "{model} runs its attention as {kind}, whose masks can't be read: call model.set_attn_implementation('sdpa') first",
        "{model} 的注意力以 {kind} 方式运行，它的掩码无法读取：请先调用 model.set_attn_implementation('sdpa')",
    ),
    "trace.other": (
        "{model} does more than softmax(q·k)·v with its q, k, v and mask, so maps computed from them would be wrong; "
        "for a short text there are the weights that the model gives itself, kept whole: --eager, or trace(…, eager=True)",
        "{model} 对 q、k、v 和掩码所做的不只是 softmax(q·k)·v，由此算出的图会是错的；短文本可以完整保存模型自己给出的权重："
        "--eager，或 trace(…, eager=True)",
    ),
    "trace.shape": (
        "{model} can't be traced: {name} is {found} where the text is {wanted} (queries × keys), so its rows and columns "
        "aren't these tokens; for the weights as the model gives them: --eager, or trace(…, eager=True)",
        "无法记录 {model}：{name} 的大小是 {found}，而文本是 {wanted}（查询 × 键），它的行列不是这些词元；"
        "要模型自己给出的权重，请用 --eager，或 trace(…, eager=True)",
    ),
    "trace.needs": (
        "{model} was given {given} and needs {wanted}: give trace() a dict with what the model is called with",
        "{model} 得到的是 {given}，还需要 {wanted}：请给 trace() 一个字典，内容是调用模型的参数",
    ),
    "trace.run": (
        "{model} failed on this input: {error}; if it reads more than text, give trace() a dict with all of it",
        "{model} 处理这个输入时出错：{error}；如果它不只读文本，请给 trace() 一个包含全部输入的字典",
    ),
    "trace.bare": (
        "this trace of {model} holds the weights alone (--eager): there are no q, k and v to show steps, outputs or "
        "contributions from; maps, rows, links and patterns are all there",
        "这份 {model} 的记录只有权重（--eager）：没有 q、k、v，无法给出计算步骤、输出或贡献；图、行、连接和模式都在",
    ),
    "trace.eager.none": (
        "{model} gives no attention weights, not even with output_attentions=True: it has none, or was loaded with an "
        "attention that keeps them (load it with attn_implementation='eager')",
        "{model} 不给出注意力权重，用 output_attentions=True 也没有：它没有权重，或加载时用了不外传权重的注意力"
        "（加载时请写 attn_implementation='eager'）",
    ),
    "trace.eager.shape": (
        "{model} gives attention weights of the size {found} where {wanted} was expected, queries × keys: its rows and "
        "columns aren't the tokens, so a map would be wrong",
        "{model} 给出的注意力权重大小是 {found}，应为 {wanted}（查询 × 键）：它的行列不是词元，画成图会是错的",
    ),
    "trace.eager.rows": (
        "{model} gives attention weights whose rows add up to {low} … {high}, not to 1: they aren't the shares of its tokens",
        "{model} 给出的注意力权重每行之和是 {low} … {high}，而不是 1：它们不是词元各自的份额",
    ),
    "trace.eager.size": (
        "the weights of all heads are kept whole, as the model gives them: {size} for {tokens} tokens, and four times that for "
        "twice as many",
        "完整保存模型给出的所有头的权重：{tokens} 个词元需要 {size}，词元数翻倍则需要四倍",
    ),
    "trace.eager.memory": (
        "the weights of all heads for {tokens} tokens are {size}, and this machine has {there}: shorten the text",
        "{tokens} 个词元、所有头的权重需要 {size}，而这台机器只有 {there} 内存：请缩短文本",
    ),
    "trace.inputs": (
        "a dict for the model needs input_ids, or {others}; it has {keys}",
        "给模型的字典里要有 input_ids，或 {others}；现在有：{keys}",
    ),
    "trace.target": (
        "{model} can't say anything by itself: give target=",
        "{model} 不能自己生成文本：请给出 target=",
    ),
    "trace.targets": (
        "there are {sources} texts and {targets} targets: give one for each",
        "有 {sources} 条文本，却有 {targets} 条目标：请一一对应",
    ),
    "draw.font": (
        "there is no font with Chinese characters here, so they show as boxes. Install any, or this one (17 MB), then draw "
        "again:\n  {command}",
        "本机没有含汉字的字体，图中的汉字会显示成方框。请安装任意一种中文字体，或者安装这一种（17 MB），然后重新画图：\n  {command}",
    ),
    "draw.page.title": ("Attention", "注意力"),
    "draw.page.old": (
        "This browser is too old to unpack what the page carries: please open it in a newer one (from 2023 on).",
        "这个浏览器太旧，无法解开页面里的数据：请用较新的浏览器打开（2023 年以后的版本）。",
    ),
    "draw.page.opening": ("opening…", "正在打开……"),
    "draw.page.noscript": (
        "This page computes its pictures itself: please allow scripts. It fetches nothing.",
        "这个页面自己计算图像：请允许运行脚本。它不会访问网络。",
    ),
    "trace.edit.name": (
        "{name} names no head: write layer.head as in 13.8, or part.layer.head as in cross.4.2; * means all",
        "{name} 不是头的名字：请写“层.头”，例如 13.8，或“部分.层.头”，例如 cross.4.2；* 表示全部",
    ),
    "trace.edit.part": (
        "this model has no part {part}: it has {parts}",
        "这个模型没有 {part} 部分，只有：{parts}",
    ),
    "trace.edit.self": (
        "cross-attention looks at another text, where no token is itself: use to='uniform', 'mean' or 'zero'",
        "交叉注意力看的是另一段文本，那里没有词元自己：请用 to='uniform'、'mean' 或 'zero'",
    ),
    "trace.edit.unheard": (
        "heads of {model} can't be edited: the attention of {classes} doesn't ask transformers for its kernel",
        "无法修改 {model} 的头：{classes} 的注意力不向 transformers 要计算函数",
    ),
    "trace.edit.shared": (
        "the layers of {model} share one attention, so a head of one layer can't be edited by itself",
        "{model} 的各层共用同一个注意力模块，无法只改其中一层的头",
    ),
    "trace.without.mask": (
        "an encoder is asked about a hidden word: write {mask} in the text",
        "编码器要问的是被遮住的词：请在文本里写 {mask}",
    ),
    "trace.without.head": (
        "{model} gives states, not words: load it with its language-model head",
        "{model} 给出的是状态，不是词：请连同语言模型输出层一起加载",
    ),
    "trace.importance.short": (
        "these texts leave nothing to predict: give texts of two tokens or more (an encoder: four)",
        "这些文本没有可预测的词元：请给至少两个词元的文本（编码器至少四个）",
    ),
    "trace.importance.file": (
        "{file} is not a record of head importance: choose another file",
        "{file} 不是头重要性的记录：请换一个文件",
    ),
    "trace.importance.other": (
        "{file} was made with another model, other texts or another edit: choose another file, or remove it",
        "{file} 是用别的模型、别的文本或别的改法得到的：请换一个文件，或删除它",
    ),
    "trace.syntax": (
        "{model}, {n} sentences: how often a head's largest weight goes to the right word, where that beats the best fixed rule",
        "{model}，{n} 个句子：头的最大权重落在正确词上的比例（仅列出胜过最佳固定规则的头）",
    ),
    "trace.syntax.model": ("the model", "模型"),
    "trace.syntax.head": ("word → its head", "词 → 支配词"),
    "trace.syntax.dependent": ("head → the word", "支配词 → 词"),
    "trace.syntax.coref.head": ("pronoun → noun", "代词 → 名词"),
    "trace.syntax.coref.dependent": ("noun → pronoun", "名词 → 代词"),
    "trace.syntax.first": ("first word", "句首词"),
    "trace.syntax.rule": ("{n} words, best fixed rule ({rule}) {share};", "{n} 个词，最佳固定规则（{rule}）{share}；"),
    "trace.syntax.none": ("no head above it", "没有头胜过它"),
    "trace.syntax.unaligned": (
        "{n} words have no token of their own and were left out.",
        "有 {n} 个词没有自己的词元，未计入。",
    ),
    "trace.syntax.meaning": (
        "+1 is the next word, −1 the one before. * = such a lead would come to one of all heads by luck with a chance below {sure}; "
        "without it, take the number for a hint.",
        "+1 指后一个词，−1 指前一个词。* = 所有头中有一个纯靠运气达到这种领先的概率低于 {sure}；没有 * 的数字只是线索。",
    ),
    "trace.conllu.missing": ("{file} can't be read: {error}", "无法读取 {file}：{error}"),
    "trace.conllu.utf8": (
        "{file} is not UTF-8 text: byte {place} can't be read",
        "{file} 不是 UTF-8 文本：第 {place} 个字节无法读取",
    ),
    "trace.conllu.empty": ("{file} has no sentence: CoNLL-U was expected", "{file} 里没有句子：应为 CoNLL-U 格式"),
    "trace.conllu.columns": (
        "{file}, line {line}: {found} columns where CoNLL-U has 10, apart by tabs",
        "{file} 第 {line} 行：有 {found} 列，而 CoNLL-U 是 10 列，用制表符分隔",
    ),
    "trace.conllu.number": (
        "{file}, line {line}: the word is numbered {found}, but {expected} comes next",
        "{file} 第 {line} 行：词的编号是 {found}，而下一个应是 {expected}",
    ),
    "trace.conllu.range": (
        "{file}, line {line}: {found} is no range of the sentence's words, 1 to {last}, in order",
        "{file} 第 {line} 行：{found} 不是句中词（1 到 {last}）的合理范围",
    ),
    "trace.conllu.range.word": (
        "{file}, line {line}: {what} is {found}, but it must be a number from {least} to {last}",
        "{file} 第 {line} 行：{what} 是 {found}，应为 {least} 到 {last} 的数字",
    ),
    "trace.conllu.itself": (
        "{file}, line {line}: {form} can't be its own head or antecedent",
        "{file} 第 {line} 行：{form} 不能是自己的支配词或先行词",
    ),
    "trace.conllu.form": (
        "{file}, line {line}: {form} was to come in the sentence's text, but that goes on with: {rest}",
        "{file} 第 {line} 行：句子文本此处应为 {form}，实际却是：{rest}",
    ),
}
