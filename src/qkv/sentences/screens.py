"""What the commands print."""

SENTENCES: dict[str, tuple[str, str]] = {
    # commands
    "train.model": (
        "{n} parameters: {layers} layers, width {width}, vocabulary {vocab}",
        "{n} 个参数：{layers} 层，宽 {width}，词表 {vocab}",
    ),
    "train.begin": ("training {last} steps into {run}", "训练 {last} 步，存于 {run}"),
    "train.from": ("going on at step {first} of {last} in {run}", "从第 {first} 步接着训练，共 {last} 步，存于 {run}"),
    "train.finished": (
        "all {last} steps of {run} are done; for more, say how many in all:  qkv train --resume {run} --steps {more}",
        "{run} 的 {last} 步都已完成；要继续，请给出总步数：qkv train --resume {run} --steps {more}",
    ),
    "train.stopped": (
        "stopped at step {step}, all saved; go on with  qkv train --resume {run}",
        "停在第 {step} 步，已全部保存；接着训练：qkv train --resume {run}",
    ),
    "train.done": (
        "done: best validation loss {loss} at step {step}; everything is in {run}. Try it:",
        "完成：第 {step} 步的验证损失最低，为 {loss}；都在 {run} 里。试一试：",
    ),
    "why.dates": (
        "data: no --pairs were given, so it learns to write dates of many forms as ISO dates",
        "数据：没有给 --pairs，于是学习把各种写法的日期写成 ISO 日期",
    ),
    "why.asked": ("tokenizer: {kind}, as asked, {vocab} tokens", "分词：按要求用 {kind}，共 {vocab} 个词元"),
    "why.characters": (
        "tokenizer: characters, {vocab} of them: the text is too short to learn whole words from",
        "分词：按字符，共 {vocab} 个：文本太短，学不出整词",
    ),
    "why.bytes": (
        "tokenizer: bytes: there are so many different characters that most are rare",
        "分词：按字节：不同的字符太多，大多数都很少出现",
    ),
    "why.bpe": (
        "tokenizer: bpe with {vocab} pieces: the text is long enough to learn words from",
        "分词：bpe，{vocab} 个片段：文本够长，可以学出词",
    ),
    "why.cpu": ("device: CPU with {threads} threads; no GPU was found", "设备：CPU，{threads} 个线程；没有找到 GPU"),
    "why.thread": (
        "device: CPU with one of {threads} threads: the model is so small that threads would wait for each other more than "
        "they work (OMP_NUM_THREADS sets another number); no GPU was found",
        "设备：CPU，{threads} 个线程里只用一个：模型太小，线程互相等待会多于计算（可用环境变量 OMP_NUM_THREADS 另行指定）；没有找到 GPU",
    ),
    "why.gpu": ("device: {name}", "设备（GPU）：{name}"),
    "why.float32": ("dtype: float32", "数据类型：float32"),
    "why.float64": ("dtype: float64, as asked", "数据类型：按要求用 float64"),
    "why.bfloat16": ("dtype: bfloat16 for matrix products, as asked", "数据类型：按要求，矩阵乘法用 bfloat16"),
    "why.eager": (
        "not compiled: that takes half a minute before the first step; --set compile=true asks for it",
        "未编译：编译要在第一步之前花半分钟；需要时用 --set compile=true",
    ),
    "why.compiled": ("compiled, as asked: the first step takes half a minute", "按要求编译：第一步要等半分钟"),
    "why.processes": ("{n} processes share each batch ({kind})", "{n} 个进程分担每个批次（{kind}）"),
    "why.world": (
        "saved by {was}, goes on with {now}: the same batches, but sums round in another order and dropout falls "
        "elsewhere, so from here on it agrees to rounding, not bit for bit",
        "由 {was} 保存，由 {now} 继续：批次相同，但求和的舍入顺序和 dropout 的位置不同，此后只在舍入误差内一致，不再逐位相同",
    ),
    "why.yields": (
        "{name}: {has}; the preset's {was} gives way to what was asked for",
        "{name}：{has}；预设的 {was} 让位于所要求的设置",
    ),
    "why.steps": (
        "steps: {now} instead of {was}; from step {done} on the learning rate follows the plan for {now}",
        "步数：由 {was} 改为 {now}；从第 {done} 步起，学习率按 {now} 步的计划变化",
    ),
    "why.now": ("{name}: {now} from here on, {was} before", "{name}：从这里起为 {now}，原来是 {was}"),
    "why.damaged": ("passed over a damaged checkpoint: {problem}", "跳过一个损坏的检查点：{problem}"),
    "data.get": ("Get one with  qkv data get NAME", "下载：qkv data get 名字"),
    "data.removed": ("removed {name}", "已删除 {name}"),
    "data.absent": ("{name} was not here", "本机没有 {name}"),
    "data.prepared": (
        "{train} tokens to learn from and {validation} to test with, in {folder}",
        "训练用 {train} 个词元，验证用 {validation} 个，存于 {folder}",
    ),
    "generate.habits": (
        "as the model's files say: {names} (an option on the command line goes before it)",
        "按模型文件的设定：{names}（命令行选项优先）",
    ),
    "generate.speed": (
        "{prompt} prompt tokens in {before} s ({reading} tokens/s) · {made} new ones, {speed} tokens/s",
        "提示 {prompt} 个词元，用时 {before} 秒（每秒 {reading} 个）· 新增 {made} 个，每秒 {speed} 个",
    ),
    "models.got": (
        "{name} is here: {place}\nUse it with  --model {name}",
        "{name} 已在本机：{place}\n使用：--model {name}",
    ),
    "models.also": (
        "--model also takes a run's folder, a Hugging Face folder (safetensors), a .gguf file, or hf:owner/name after\n"
        "qkv models get hf:owner/name. Layouts: LLaMA, Mistral, Qwen2, Qwen3, GPT-2, BERT, RoBERTa, T5, BART, Marian.",
        "--model 也可以是训练得到的文件夹、Hugging Face 文件夹（safetensors）、.gguf 文件，或先用\n"
        "qkv models get hf:作者/名字 下载。支持的结构：LLaMA、Mistral、Qwen2、Qwen3、GPT-2、BERT、RoBERTa、T5、BART、Marian。",
    ),
    "chat.begin": (
        "Talking with {model}. /new begins anew, /quit or Ctrl-D ends, Ctrl-C stops an answer.",
        "正在与 {model} 对话。/new 重新开始，/quit 或 Ctrl-D 结束，Ctrl-C 中断回答。",
    ),
    "chat.forgot": (
        "(the context is full: the oldest question and answer are forgotten)",
        "（上下文已满：忘掉了最早的一问一答）",
    ),
    "export.done": (
        "wrote {folder} in the {layout} layout; transformers loads it: {how}",
        "已按 {layout} 的格式写入 {folder}；transformers 可直接读取：{how}",
    ),
    "translate.cut": (
        "({n} cut after {most} tokens, where the translation had not ended: {longer})",
        "（有 {n} 句在 {most} 个词元处截断，译文还没有结束：{longer}）",
    ),
    "translate.cut.most": ("--most N allows more", "可用 --most N 放宽"),
    "translate.cut.context": (
        "the model has {context} positions; translate shorter pieces",
        "模型只有 {context} 个位置，请分成短句翻译",
    ),
    "translate.demo.date": (
        "{text} is no date in a form that this small model learned, and all it can do is write a date: give one from {first} "
        "to {last}, written like {forms}; for sentences use  --model opus-zh-en",
        "“{text}”不是这个小模型学过的日期写法，而它只会写日期：请给 {first} 到 {last} 年之间的日期，写成 {forms} 这样；"
        "翻译句子请用  --model opus-zh-en",
    ),
    "translate.demo": (
        "a small model that ships with qkv, trained on dates alone by: {command}",
        "这是随 qkv 附带的小模型，只学过日期，由此命令训练：{command}",
    ),
    # steps.py
    "steps.title": ("softmax(QKᵀ/√d)V, step by step", "softmax(QKᵀ/√d)V，一步一步算"),
    "steps.sizes": (
        "{n} queries look at {m} keys; each vector of q and k has {d} numbers.",
        "{n} 个查询看 {m} 个键；q 和 k 的每个向量有 {d} 个数。",
    ),
    "steps.head": (
        "Shown: head {head} of {heads}, counted from 0.",
        "显示第 {head} 个头（从 0 开始编号，共 {heads} 个头）。",
    ),
    "steps.batch": (
        "Shown: item {item} of a batch of {items}, counted from 0.",
        "显示这一批中的第 {item} 条（从 0 开始编号，共 {items} 条）。",
    ),
    "steps.project": (
        "Three views of the same words: q = x·W_q asks, k = x·W_k answers, v = x·W_v is what gets passed on.",
        "同样的词，三种表示：q = x·W_q 用来提问，k = x·W_k 用来应答，v = x·W_v 是要传递的内容。",
    ),
    "steps.project.cross": (
        "Two texts: q = x·W_q asks from the one; k = memory·W_k answers and v = memory·W_v is passed on from the "
        "other.",
        "两段文本：一段用 q = x·W_q 提问；另一段用 k = memory·W_k 应答，用 v = memory·W_v 传递内容。",
    ),
    "steps.identity": ("Left out: {names}; so {equal}.", "没有给出 {names}，所以 {equal}。"),
    "steps.given": ("Q, K and V as they were given.", "Q、K、V 是直接给出的。"),
    "steps.columns": ("columns {low} to {high}, those of head {head}", "第 {low} 到 {high} 列，属于第 {head} 个头"),
    "steps.scores": (
        "Every query meets every key: their dot product says how well they match. Best match: {query} · {key} = "
        "{value}.",
        "每个查询与每个键做点积，衡量匹配程度。最匹配的一对：{query} · {key} = {value}。",
    ),
    "steps.scaled": (
        "Times {scale} = 1/√{d}: a sum of {d} products spreads like √{d}; dividing that out keeps the softmax from "
        "growing sharper as vectors grow wider.",
        "乘以 {scale} = 1/√{d}：{d} 个乘积之和的标准差约为 √{d}；除以它，向量变宽时 softmax 才不会越来越集中。",
    ),
    "steps.scaled.own": ("Times {scale}, the scale that was asked for.", "乘以 {scale}，这是指定的缩放系数。"),
    "steps.softcap": (
        "Then {softcap}·tanh(score/{softcap}), which keeps every score between −{softcap} and {softcap}.",
        "再取 {softcap}·tanh(分数/{softcap})，使每个分数都在 −{softcap} 和 {softcap} 之间。",
    ),
    "steps.bias": (
        "Then the bias is added; −∞ in it hides that pair, as a mask does.",
        "再加上偏置 bias；其中的 −∞ 与掩码一样隐藏那一对。",
    ),
    "steps.scaled.off": (
        "No scaling (scale = 1): the scores go on as they are.",
        "不缩放（scale = 1）：分数原样进入下一步。",
    ),
    "steps.masked": (
        "{hidden} of {total} pairs may not attend: they become −∞, so that their weight will be exactly 0.",
        "{total} 对中有 {hidden} 对不允许关注：置为 −∞，于是权重恰好为 0。",
    ),
    "steps.masked.none": ("No mask: every query may look at every key.", "没有掩码：每个查询都可以看每个键。"),
    "steps.weights": (
        "softmax turns each row into shares: e to the power of each number, divided by the row's sum. Largest: "
        "{query} gives {key} {value}.",
        "softmax 把每一行变成占比（和为 1）：先取 e 的幂，再除以该行之和。最大的权重：{query} 对 {key} 是 {value}。",
    ),
    "steps.sinks": (
        "A sink with score {sink} joins each row's sum and gives nothing, so the shown weights sum to less than 1.",
        "每行的和里还有一个分数为 {sink} 的 sink，它占一份但不传递内容，所以显示的权重之和小于 1。",
    ),
    "steps.weights.dead": (
        "{rows} may attend to nothing: the whole row is 0, not NaN.",
        "{rows} 什么都不能看：整行为 0，而不是 NaN。",
    ),
    "row.sum": ("Row sums: {low} to {high}.", "每行之和：{low} 到 {high}。"),
    "steps.output": (
        "Each output row is the average of the rows of V, weighted by that row's shares.",
        "每一行输出是 V 各行的加权平均，权重就是上一步中对应的那一行。",
    ),
    "steps.merge": (
        "The {heads} heads' outputs are put side by side: {shape}.",
        "把 {heads} 个头的输出拼接起来：{shape}。",
    ),
    "steps.project.out": ("Times W_o, which lets what the heads found mix.", "再乘以 W_o，把各个头的结果混合起来。"),
    "steps.word": ("The row of {word}, term by term: Σ weight × V", "{word} 这一行，逐项相加：Σ 权重 × V"),
    "steps.word.sum": ("sum", "合计"),
    "steps.word.weight": ("weight", "权重"),
    "steps.drawn": (
        "The word vectors (width {dim}) and {matrices} are drawn at random from seed {seed}: every sum below is "
        "true, but the meaning is not learned.",
        "词向量（宽 {dim}）和 {matrices} 由种子 {seed} 随机产生：下面每个数都是实际算出来的，但这些向量未经训练，不代表词义。",
    ),
    "steps.same": ("The same word always gets the same vector.", "同一个词的向量总是相同。"),
    "steps.position": (
        "Sinusoidal positions were added to the word vectors, so the same word differs from place to place.",
        "词向量加上了正弦位置编码，所以同一个词在不同位置，向量也不同。",
    ),
    "steps.model": (
        "{part} layer {layer}, head {head} of {model}: its own q, k and v on this text, every number learned, not drawn.",
        "{model} 的 {part} 第 {layer} 层第 {head} 个头：在这段文本上的 q、k、v，都是学到的，不是随机数。",
    ),
    "steps.model.shared": (
        "Heads share keys and values here: head {head} reads key/value head {kv} (of {groups}).",
        "这里几个头共用键和值：第 {head} 个头读第 {kv} 个键值头（共 {groups} 个）。",
    ),
    "steps.model.rotary": (
        "q and k are already rotated by their positions (RoPE).",
        "q 和 k 已按位置旋转（RoPE）。",
    ),
    "steps.model.relative": (
        "A learned number per distance is added to the scores (relative positions).",
        "得分会加上一个随距离而定的数，是学到的（相对位置）。",
    ),
    "steps.model.alibi": (
        "Scores are lowered in proportion to the distance (ALiBi).",
        "得分按距离成比例降低（ALiBi）。",
    ),
    "steps.model.same": (
        "The steps, in float64, differ from the model's own kernel by at most {difference}.",
        "下面用 float64 逐步计算，与模型自己的内核最多相差 {difference}。",
    ),
    "steps.from.file": ("Read from {file}: {what}.", "从 {file} 读入：{what}。"),
    # tiles.py
    "tiles.title": (
        "The same softmax, {block} keys at a time (how flash attention needs no n×n matrix)",
        "同一个 softmax，每次只看 {block} 个键（flash attention 因此不需要 n×n 矩阵）",
    ),
    "tiles.block": (
        "keys {low} to {high}: maximum {old} → {new}; what was summed so far is multiplied by e^(old − new) = {shrink}",
        "键 {low} 到 {high}：最大值 {old} → {new}；此前的累计乘以 e^(旧 − 新) = {shrink}",
    ),
    "tiles.block.first": (
        "keys {low} to {high}: maximum {new}; nothing was summed before",
        "键 {low} 到 {high}：最大值 {new}；此前没有累计",
    ),
    "tiles.block.empty": (
        "keys {low} to {high}: all hidden by the mask; nothing changes",
        "键 {low} 到 {high}：全部被掩码隐藏，什么都不变",
    ),
    "tiles.sum": ("running sum", "累计和"),
    "tiles.output": ("running output", "累计输出"),
    "tiles.end": (
        "Output = running output / running sum. Largest difference from the plain way: {difference}.",
        "输出 = 累计输出 / 累计和。与普通算法的最大差异：{difference}。",
    ),
    "tiles.row": ("Shown: the row of {word}.", "显示 {word} 这一行。"),
    # masks.py
    "masks.legend": (
        "row = query, column = key; ■ may attend, · may not ({allowed} of {total} allowed)",
        "行 = 查询，列 = 键；■ 可以看，· 不能看（{total} 对中可以看的有 {allowed} 对）",
    ),
    # describe.py
    "describe.title": (
        "{kind}, {layers} layers, width {width}, {heads} heads, vocabulary {vocab}",
        "{kind}，{layers} 层，宽 {width}，{heads} 个头，词表 {vocab}",
    ),
    "describe.decoder": ("decoder", "解码器"),
    "describe.encoder": ("encoder", "编码器"),
    "describe.encoder-decoder": ("encoder-decoder", "编码器-解码器"),
    "describe.parameters": ("parameters", "参数"),
    "describe.share": ("share", "占比"),
    "describe.memory": ("memory (float32)", "内存（float32）"),
    "describe.flops": ("FLOPs per token", "每词元 FLOPs"),
    "describe.embedding": ("embedding", "词嵌入"),
    "describe.positions": ("positions", "位置"),
    "describe.attention": ("attention", "注意力"),
    "describe.cross": ("cross-attention", "交叉注意力"),
    "describe.forward": ("feed-forward", "前馈"),
    "describe.norms": ("norms", "归一化"),
    "describe.head": ("head", "输出层"),
    "describe.head.tied": ("head (tied)", "输出层（共享）"),
    "describe.total": ("total", "合计"),
    "describe.note": (
        "FLOPs: the matrix products of one token that sees a context of {context}, a multiply and an add counted as 2.",
        "FLOPs：一个词元看满 {context} 个词元的上下文时的矩阵乘法，一次乘加计为 2。",
    ),
    "describe.note.both": (
        "FLOPs: the matrix products of one source token read and one target token written, each seeing a context of "
        "{context}, a multiply and an add counted as 2.",
        "FLOPs：读入一个源词元并写出一个目标词元的矩阵乘法，各看满 {context} 个词元，一次乘加计为 2。",
    ),
    "describe.cache": (
        "KV cache: {each} bytes per token, {whole} at the full context.",
        "KV 缓存：每词元 {each} 字节，上下文占满时 {whole}。",
    ),
    "describe.cache.window": (
        "KV cache: {each} bytes per token, never more than {held} tokens: {whole}.",
        "KV 缓存：每词元 {each} 字节，最多保留 {held} 个词元：{whole}。",
    ),
}
