"""What `qkv lab` says: titles, columns, and the paragraphs, which tell what was measured, whichever way it came out."""

SENTENCES: dict[str, tuple[str, str]] = {
    "lab.list": (
        "Measured experiments. Each prints a table, draws a figure and says what was measured, with your own sizes:",
        "测量实验。每个实验都打印表格、画图，并说明测到了什么；大小可以自己定：",
    ),
    "lab.takes": (
        "{name} will take about {seconds} s here, by a first small step",
        "按刚才试测的一小步，{name} 在这里大约需要 {seconds} 秒",
    ),
    "lab.list.more": (
        "The sizes of one: qkv lab EXPERIMENT --help",
        "某个实验的各种大小：qkv lab 实验 --help",
    ),
    "lab.numbers": (
        "{option} is {value}: give whole numbers separated by commas, each {wanted}",
        "{option} 是 {value}：应为用逗号隔开的整数，每个在 {wanted} 之间",
    ),
    "lab.busy": (
        "(Others kept this machine busy meanwhile, {load} programs per core: the times are too long and not to be trusted.)",
        "（测量时机器很忙，每个核上有 {load} 个程序：时间偏长，不可当真。）",
    ),
    # scaling
    "lab.scaling.spread": (
        "Softmax of {n} random numbers, with a wide and with a narrow spread",
        "{n} 个随机数的 softmax：分布宽与分布窄",
    ),
    "lab.scaling.spread.header": (
        "std|measured|largest weight|above 1/n|entropy / most|shared by",
        "标准差|实测|最大权重|大于 1/n 的个数|熵 / 最大熵|相当于几个数均分",
    ),
    "lab.scaling.widths": (
        "Softmax of dot products of random q and k: {queries} queries, {keys} keys each",
        "随机 q、k 点积的 softmax：{queries} 个查询，各有 {keys} 个键",
    ),
    "lab.scaling.numbers": (
        "Of {n} numbers with a standard deviation of {std}, softmax gives the largest {largest} of all weight; above an"
        " even share: {few}; spread as over {shared} equal ones. The same numbers with a standard deviation of 1: the largest"
        " gets {one}; above an even share: {many}; spread as over {others} equal ones.",
        "{n} 个标准差为 {std} 的数，softmax 把全部权重的 {largest} 给了最大的一个；超过平均份额的有 {few} 个，"
        "分散程度相当于 {shared} 个数均分。同样的数把标准差变成 1：最大的得到 {one}，超过平均份额的有 {many} 个，"
        "相当于 {others} 个数均分。",
    ),
    "lab.scaling.falls": (
        "From d_k = {first} to {last}, undivided scores grow wider, the entropy of the weights falls from {a} to {b} (of at"
        " most {most}) and the gradient that passes softmax from {c} to {d} (most: {top} at d_k = {top_at}). Divided by √d_k, the entropy stays between"
        " {low} and {high} and the gradient between {small} and {large}, whatever d_k is.",
        "d_k 从 {first} 到 {last}，不除时分数越来越分散，权重的熵从 {a} 降到 {b}（最大 {most}），"
        "穿过 softmax 的梯度从 {c} 变到 {d}（最大是 d_k = {top_at} 时的 {top}）。除以 √d_k 后，无论 d_k 多大，熵保持在 {low} 到 {high} 之间，"
        "梯度保持在 {small} 到 {large} 之间。",
    ),
    "lab.scaling.stays": (
        "From d_k = {first} to {last}, the entropy of undivided scores went from {a} to {b} (of at most {most}) and the"
        " gradient from {c} to {d}: with these sizes they don't both fall. Divided by √d_k, the entropy lies between {low}"
        " and {high}, the gradient between {small} and {large}.",
        "d_k 从 {first} 到 {last}，不除时熵从 {a} 变到 {b}（最大 {most}），梯度从 {c} 变到 {d}："
        "在这样的大小下二者没有一起下降。除以 √d_k 后，熵在 {low} 到 {high} 之间，梯度在 {small} 到 {large} 之间。",
    ),
    "lab.scaling.one": (
        "At d_k = {last}, the weights of undivided scores have an entropy of {b} (of at most {most}) and pass a gradient of"
        " {d}; divided by √d_k, {low} and {small}. Give several --widths to see how it grows.",
        "d_k = {last} 时，不除的分数得到的熵是 {b}（最大 {most}），梯度是 {d}；除以 √d_k 后分别是 {low} 和 {small}。"
        "给出几个 --widths 可以看它怎样变化。",
    ),
    "lab.scaling.gain": (
        "At d_k = {last}, dividing lets {ratio} times as much gradient through to the scores.",
        "d_k = {last} 时，除以 √d_k 使到达分数的梯度是原来的 {ratio} 倍。",
    ),
    "lab.scaling.loss": (
        "At d_k = {last}, dividing lets {ratio} times as much gradient through to the scores: here it doesn't help.",
        "d_k = {last} 时，除以 √d_k 使到达分数的梯度是原来的 {ratio} 倍：在这里没有帮助。",
    ),
    # complexity
    "lab.complexity.title": (
        "One attention, forward, {heads} × {width} wide, window {window} (— : one matrix would be too large)",
        "一次注意力（前向），{heads} × {width} 宽，窗口 {window}（— 表示一个矩阵就太大）",
    ),
    "lab.complexity.plain": ("plain", "朴素"),
    "lab.complexity.fused": ("fused", "融合"),
    "lab.complexity.windowed": ("windowed", "窗口"),
    "lab.complexity.compiled": ("compiled", "编译"),
    "lab.complexity.step": (
        "One training step of a GPT: {layers} layers, width {width}, {heads} heads, {batch} × {context} tokens",
        "GPT 训练一步：{layers} 层，宽 {width}，{heads} 个头，{batch} × {context} 个词元",
    ),
    "lab.complexity.step.header": ("road|time|against plain", "方式|时间|与朴素相比"),
    "lab.complexity.few": (
        "{n} lengths are too few to fit a law: give {least} or more",
        "{n} 个长度太少，无法拟合规律：请给 {least} 个或更多",
    ),
    "lab.complexity.long": (
        "plain attention can be measured up to n = {most} here: give {least} lengths up to that, or fewer heads",
        "这里朴素注意力最多只能测到 n = {most}：请给至少 {least} 个不超过它的长度，或减少头数",
    ),
    "lab.complexity.law": (
        "{kind}: time grows as n^{time}, memory as n^{memory}; at n = {n} that makes about {seconds} and {bytes}.",
        "{kind}：时间按 n^{time} 增长，内存按 n^{memory} 增长；n = {n} 时约为 {seconds} 和 {bytes}。",
    ),
    "lab.complexity.matrix": (
        "One matrix of {n} × {n} weights has {entries} entries and takes {bytes} in float32, for one head of one layer.",
        "一个 {n} × {n} 的权重矩阵有 {entries} 个元素，用 float32 存要 {bytes}，而这只是一层里的一个头。",
    ),
    "lab.complexity.saves": (
        "The fused kernel computes the same numbers without holding that matrix, in 1/{ratio} of the memory there.",
        "融合内核算出同样的数，却不保存这个矩阵，届时内存只有 1/{ratio}。",
    ),
    "lab.complexity.equal": (
        "By these measurements the fused kernel would need {ratio} times less memory there: no great saving at these sizes.",
        "按这次测量，融合内核届时的内存是朴素的 1/{ratio}：在这样的大小下节省不多。",
    ),
    "lab.complexity.steps": (
        "A whole training step takes {plain} with plain attention and {fused} with the fused kernel ({ratio} times as fast):"
        " attention is only a part of it.",
        "训练一步，用朴素注意力要 {plain}，用融合内核要 {fused}（速度是 {ratio} 倍）：注意力只是其中一部分。",
    ),
    "lab.complexity.compiled.took": (
        "Compiled, it takes {seconds} ({ratio} times as fast as fused), after {first} for the first step.",
        "编译后要 {seconds}（是融合速度的 {ratio} 倍），但第一步要花 {first}。",
    ),
    "lab.complexity.fit": (
        "The laws of time miss no measured point that they are fitted to by more than {off}.",
        "时间的规律与用来拟合的各测量点相差不超过 {off}。",
    ),
    "lab.complexity.loose": (
        "But the times don't lie on such laws (a measured point is off by {off}), so their exponents and what they give for"
        " long texts say little: measure again on a quiet machine, or with longer texts.",
        "但时间并不符合这样的规律（有的测量点相差 {off}），所以其指数和外推意义不大：请在空闲的机器上或用更长的文本再测。",
    ),
    "lab.complexity.why.none": (
        "Nothing was compiled: there is no C++ compiler here (g++ or clang++; CXX names another).",
        "没有测编译：这里没有 C++ 编译器（g++ 或 clang++，也可以用 CXX 指定）。",
    ),
    "lab.complexity.uncompiled": ("--compile measures a compiled step too.", "加上 --compile 还会测编译后的一步。"),
    "lab.complexity.compiling": (
        "torch compiles the training step now; how long that takes can't be told beforehand",
        "现在由 torch 编译训练的一步；要多久无法预先知道",
    ),
    "lab.complexity.why.failed": (
        "Compiling failed here ({error}), so there is no third time.",
        "这里编译失败（{error}），所以没有第三个时间。",
    ),
    # memory
    "lab.memory.title": (
        "KV cache of {model}: {layers} layers, {heads} heads × {head_width} ({kv_heads} of keys and values), latent {rank} +"
        " {rope_width}; {batch} × {length} tokens, {each} (◂ its own kind)",
        "{model} 的 KV 缓存：{layers} 层，{heads} 个头 × {head_width}（键/值头 {kv_heads} 个），隐向量 {rank} + {rope_width}；"
        "{batch} × {length} 个词元，{each}（◂ 是它自己的种类）",
    ),
    "lab.memory.header": (
        "kind|kv heads|numbers per token and layer|per token|in all|of MHA|tokens in {room} GB",
        "种类|键/值头|每词元每层的数|每词元|总共|与 MHA 相比|{room} GB 可放词元",
    ),
    "lab.memory.own": (
        "{model} keeps its keys and values as {kind}: {token} per token, {whole} for {length} tokens, where MHA would need"
        " {mha} ({ratio} times as much). {fits} tokens fit into {room} GB.",
        "{model} 用 {kind} 保存键和值：每个词元 {token}，{length} 个词元共 {whole}，而 MHA 要 {mha}（{ratio} 倍）。"
        "{room} GB 可以放 {fits} 个词元。",
    ),
    "lab.memory.least": (
        "Of the four, {kind} is the smallest: {bytes}.",
        "四种之中 {kind} 最小：{bytes}。",
    ),
    "lab.memory.latent": (
        "MLA keeps one latent of {rank} numbers and a rotary key of {rope} for all heads, {numbers} numbers, as much as GQA"
        " with {groups} key/value heads, and rebuilds every head's keys and values from them.",
        "MLA 为所有头只保存一个 {rank} 个数的隐向量和一个 {rope} 个数的旋转键，共 {numbers} 个数，"
        "相当于有 {groups} 个键/值头的 GQA，再从中恢复每个头的键和值。",
    ),
    "lab.memory.same": (
        "Formula and the tensors of a qkv cache of this shape agree to the byte.",
        "公式与 qkv 同样形状的缓存张量逐字节一致。",
    ),
    "lab.memory.differs": (
        "The formula and the tensors of a qkv cache of this shape do NOT agree: please report it.",
        "公式与 qkv 同样形状的缓存张量不一致：请报告这个问题。",
    ),
    "lab.memory.names": ("Shapes known by name: {names}.", "按名字可选的形状：{names}。"),
    "lab.memory.encoder": (
        "{model} is an encoder: it reads a text at once and keeps no cache; name a decoder",
        "{model} 是编码器：它一次读完文本，没有缓存；请给一个解码器",
    ),
    # distance
    "lab.distance.lstm": ("LSTM", "LSTM 网络"),
    "lab.distance.attention": ("attention", "注意力"),
    "lab.distance.lstm.first": ("The LSTM", "LSTM 网络"),
    "lab.distance.lstm.then": ("the LSTM", "LSTM 网络"),
    "lab.distance.attention.first": ("Attention", "注意力"),
    "lab.distance.attention.then": ("attention", "注意力"),
    "lab.distance.title": (
        "Recall one of {symbols} words after a gap, {steps} training steps each; LSTM {lstm} weights, attention"
        " {attention}; chance {chance}",
        "隔一段噪声后回忆 {symbols} 个词之一，各训练 {steps} 步；LSTM {lstm} 个参数，注意力 {attention} 个；随机猜对 {chance}",
    ),
    "lab.distance.header": (
        "gap|LSTM right|attention right|LSTM per step|attention per step|LSTM chain|attention chain|weight on the word",
        "间隔|LSTM 正确|注意力正确|LSTM 每步|注意力每步|LSTM 依赖链|注意力依赖链|在该词上的权重",
    ),
    "lab.distance.all": (
        "{name} remembered the word over every gap up to {last}.",
        "{name}在直到 {last} 的每个间隔上都记住了那个词。",
    ),
    "lab.distance.some": (
        "{name} remembered it over gaps up to {good}, and failed at {bad} ({accuracy} right; chance is {chance}).",
        "{name}最远在间隔 {good} 上记住了它，在 {bad} 上没有（正确 {accuracy}，随机为 {chance}）。",
    ),
    "lab.distance.none": (
        "{name} remembered it over no gap, not even {bad} ({accuracy} right; chance is {chance}): give it more --steps.",
        "{name}在哪个间隔上都没有记住，连 {bad} 也没有（正确 {accuracy}，随机为 {chance}）：请增加 --steps。",
    ),
    "lab.distance.looks": (
        "At gap {gap}, the question's attention puts {weight} of its weight on the word (an even share is {even}).",
        "间隔 {gap} 时，提问处的注意力把 {weight} 的权重放在那个词上（平均份额是 {even}）。",
    ),
    "lab.distance.time": (
        "A training step there took the LSTM {lstm} and attention {attention}: {faster} was {ratio} times as fast with"
        " {threads}. The LSTM's {chain} steps each wait for the one before, whatever the machine; attention's"
        " positions wait for nobody, so many cores help it most, while its work grows with the square of the length.",
        "这时训练一步，LSTM 要 {lstm}，注意力要 {attention}（{threads}），{faster}的速度是另一方的 {ratio} 倍。"
        "无论什么机器，LSTM 的 {chain} 步都要一步等一步；注意力的各个位置互不等待，最能利用许多核，不过它的计算量随长度的平方增长。",
    ),
    # heads
    "lab.heads.divide": (
        "width {width} doesn't divide into {heads} heads of an even width (rotary positions turn pairs)",
        "宽度 {width} 不能分成 {heads} 个偶数宽的头（旋转位置成对转动）",
    ),
    "lab.heads.title": (
        "The repeat task: {layers} layers, width {width}, {steps} steps, sequences of up to {length} of {symbols} symbols",
        "重复任务：{layers} 层，宽 {width}，{steps} 步，序列最长 {length}，{symbols} 种符号",
    ),
    "lab.heads.header": (
        "heads × width|right|{good} at step|time per step|induction|previous token|what the heads do",
        "头数 × 宽|正确|达到 {good} 的步数|每步时间|归纳|前一个词元|各头在做什么",
    ),
    "lab.heads.one": ("{heads}: {accuracy} said right.", "{heads}：说对了 {accuracy}。"),
    "lab.heads.range": (
        "At equal width, and so with as many weights ({params}; only the norms of q and k differ), {best} of width {best_width} did best"
        " ({high} right), {worst} of width {worst_width} worst ({low}; chance is {chance}).",
        "宽度相同，参数个数也就相同（{params}，只有 q、k 的归一化略有差别），{best}（宽 {best_width}）正确率最高（{high}），"
        "{worst}（宽 {worst_width}）最低（{low}，随机为 {chance}）。",
    ),
    "lab.heads.more": (
        "Here more heads helped: {heads} heads, of width {width} each, came out best.",
        "在这里头越多越好：{heads} 个头（每个宽 {width}）最好。",
    ),
    "lab.heads.fewer": (
        "More heads were not better here. {heads} of them are only {width} wide each, and a likely reason is that finding one"
        " symbol among many takes a q and k wide enough to tell them apart.",
        "在这里头多并不更好：{heads} 个头时每个只有 {width} 宽；可能的原因是，要在许多符号中找到一个，头的 q 和 k 必须够宽才能分清它们。",
    ),
    "lab.heads.first": (
        "First to say {good} right: {heads}, at step {step}.",
        "最先达到 {good} 的是 {heads}，在第 {step} 步。",
    ),
    "lab.heads.nobody": (
        "No model said {good} right within {steps} steps: give it more --steps.",
        "{steps} 步之内没有一个达到 {good}：请增加 --steps。",
    ),
    "lab.heads.does": (
        "What the heads of the best ({heads}) do: {found}.",
        "最好的那个（{heads}）里各头的作用：{found}。",
    ),
    "lab.heads.head": (
        "{kind}, strongest in {place} (layer.head) with {score} of its weight (even: {even})",
        "{kind}，最强的是 {place}（层.头），占其权重的 {score}（平均为 {even}）",
    ),
    # seq2seq
    "lab.seq2seq.gru": ("GRU + additive attention", "GRU + 加性注意力"),
    "lab.seq2seq.transformer": ("Transformer", "Transformer 模型"),
    "lab.seq2seq.title": (
        "Dates of many forms to ISO: {steps} steps of {batch} dates, {tests} unseen dates as the test (GRU by AdamW, Transformer by Muon)",
        "把各种写法的日期译成 ISO：训练 {steps} 步，每步 {batch} 个日期，用 {tests} 个没见过的日期测试（GRU 用 AdamW，Transformer 用 Muon）",
    ),
    "lab.seq2seq.header": (
        "model|weights|right|per step|per date|last loss|{text}|year on year",
        "模型|参数|正确|每步|每个日期|末尾损失|{text}|年对年",
    ),
    "lab.seq2seq.empty": (
        "--text is empty: give a date, as in  15 November 2026",
        "--text 是空的：请给一个日期，例如  2026年11月15日",
    ),
    "lab.seq2seq.date": (
        "--text is {text}, no date in a form that the two are taught: write one from {first} to {last} like {forms}",
        "--text 是 {text}，不是两个模型要学的日期写法：请给 {first} 到 {last} 年之间的日期，写成 {forms} 这样",
    ),
    "lab.seq2seq.ahead": (
        "After {steps} steps, the {ahead} got {high} of {tests} unseen dates wholly right, the {behind} {low}.",
        "训练 {steps} 步后，{tests} 个没见过的日期里，{ahead}全对的占 {high}，{behind}占 {low}。",
    ),
    "lab.seq2seq.equal": (
        "After {steps} steps, both ({ahead}, {behind}) got {high} of {tests} unseen dates wholly right ({low}).",
        "训练 {steps} 步后，{tests} 个没见过的日期里，{ahead}与{behind}全对的一样多：{high}（{low}）。",
    ),
    "lab.seq2seq.time": (
        "A training step took the GRU {gru} and the Transformer {transformer} ({threads}): the {faster} was {ratio}"
        " times as fast. The GRU reads and writes one character after the other; the Transformer reads all of them at once"
        " and, while training, writes all at once.",
        "训练一步，GRU 要 {gru}，Transformer 要 {transformer}（{threads}），{faster}的速度是另一方的 {ratio} 倍。"
        "GRU 一个字符接一个字符地读和写；Transformer 一次读完，训练时也一次写完。",
    ),
    "lab.seq2seq.year": (
        "Writing the year, the GRU put {gru} of its attention on the very digit that it copies; of the Transformer's heads,"
        " {head} (layer.head) did so most, with {transformer}.",
        "写年份时，GRU 把 {gru} 的注意力放在它正要抄的那一位数字上；Transformer 的各头中 {head}（层.头）最高，为 {transformer}。",
    ),
    "lab.seq2seq.noyear": (
        "(The two didn't both write a year that stands in the text digit by digit, so no copying is scored; of the"
        " Transformer, {head} is drawn, the head that was surest where to look or copied best.)",
        "（两者没有都写出文本中逐位出现的年份，所以不计抄写的得分；Transformer 画的是 {head}，即看得最确定或抄得最准的头。）",
    ),
    # masks
    "lab.masks.self": ("self-attention", "自注意力"),
    "lab.masks.causal": ("causal", "因果注意力"),
    "lab.masks.cross": ("cross-attention", "交叉注意力"),
    "lab.masks.self.q": ("source", "源文"),
    "lab.masks.self.kv": ("the same source", "同一段源文"),
    "lab.masks.self.used": ("encoders: BERT, a translator's reader", "编码器：BERT、翻译模型的读入端"),
    "lab.masks.causal.q": ("target so far", "已写的译文"),
    "lab.masks.causal.kv": ("the same, up to itself", "同一段，到自身为止"),
    "lab.masks.causal.used": ("decoders: GPT, a translator's writer", "解码器：GPT、翻译模型的写出端"),
    "lab.masks.cross.q": ("target", "译文"),
    "lab.masks.cross.kv": ("source", "源文"),
    "lab.masks.cross.used": ("encoder-decoders: translators, T5, BART", "编码器-解码器：翻译模型、T5、BART"),
    "lab.masks.where": ("Where Q and K, V come from, and who uses it", "Q 与 K、V 从哪里来，谁在用"),
    "lab.masks.where.header": ("kind|Q from|K, V from|used by", "种类|Q 来自|K、V 来自|谁在用"),
    "lab.masks.model": ("Measured in {model} (layer.head: {heads})", "在 {model} 中测得（层.头：{heads}）"),
    "lab.masks.words": (
        "Your own words, random vectors of width {width}, seed {seed}",
        "自己的词，宽 {width} 的随机向量，种子 {seed}",
    ),
    "lab.masks.header": (
        "kind|queries × keys|may look|sums of rows|hidden weight|rows that the last key moves|strongest",
        "种类|查询 × 键|可看的对|各行之和|被遮处的权重|最后一个键影响的行|最强的一对",
    ),
    "lab.masks.formula": (
        "All three are softmax(QKᵀ/√d)V: only where Q and K, V come from and who may look at whom differ.",
        "三者都是 softmax(QKᵀ/√d)V：不同的只是 Q 与 K、V 从哪里来，以及谁可以看谁。",
    ),
    "lab.masks.zero": (
        "What a mask hides has a weight of exactly 0, and the rest of each row still adds up to 1.",
        "被遮住的地方权重恰好是 0，每行其余的权重之和仍是 1。",
    ),
    "lab.masks.leak": (
        "What the masks hide still has a weight of {hidden} in all: that should be 0.",
        "被遮住的地方总共还有 {hidden} 的权重：应当为 0。",
    ),
    "lab.masks.moved": (
        "Changing the last key and value moved {own} of {own_n} rows of self-attention, {causal} of {causal_n} of causal"
        " attention and {cross} of {cross_n} of cross-attention.",
        "改变最后一个键和值，自注意力的 {own_n} 行中有 {own} 行变化，因果注意力的 {causal_n} 行中有 {causal} 行，"
        "交叉注意力的 {cross_n} 行中有 {cross} 行。",
    ),
    "lab.masks.parallel": (
        "No earlier row noticed a later token: that is why a decoder can be trained on all positions of a text at once.",
        "前面的行都没有受到后面词元的影响：所以解码器可以在一段文本的所有位置上同时训练。",
    ),
    "lab.masks.strongest": (
        "The strongest weight of cross-attention here: {pair}.",
        "这里交叉注意力最强的权重：{pair}。",
    ),
    "lab.masks.named": (
        "The rows of the translation have two names: in the causal table the token that is read there ({first} starts it), in the table"
        " of cross-attention the token that is written from there, one further on ({first} → {second}). {end} is the end of"
        " the text.",
        "译文的行有两种名字：因果注意力的表里是那一行读到的词元（{first} 是开头），交叉注意力的表里是由那一行写出的词元，往后错一位"
        "（{first} → {second}）。{end} 表示译文到此结束。",
    ),
    "lab.masks.both": (
        "give both --text (the words that are written) and --source (the words that are read), or neither",
        "--text（写出的词）和 --source（读入的词）要么都给，要么都不给",
    ),
    "lab.masks.long": (
        "{n} words are too many to draw: give at most {most}, separated by blanks",
        "{n} 个词太多，画不下：最多 {most} 个，用空格隔开",
    ),
}
