"""What the commands print, and the mistakes they refuse themselves."""

SENTENCES: dict[str, tuple[str, str]] = {
    # mistakes
    "problem": ("qkv: {sentence}", "qkv：{sentence}"),
    "problem.english": ("qkv: {sentence}", "qkv：{sentence}（此说明只有英文）"),
    "problem.word": ("{word} is not in the text; there are: {words}", "文中没有 {word}，只有：{words}"),
    "problem.bug": (
        "this is a bug of qkv, not a mistake of yours ({error}). Please report it; QKV_DEBUG=1 shows the traceback",
        "这是 qkv 自身的错误（{error}），与用法无关。请报告给我们；设置 QKV_DEBUG=1 可以看到完整的出错信息",
    ),
    "problem.memory.full": (
        "not enough memory for this; try less text or fewer dimensions",
        "内存不够：请减少文本或维度",
    ),
    "problem.lang": (
        "there is no language {asked}: give --lang {languages}",
        "没有 {asked} 这种语言：请写 --lang {languages}",
    ),
    "problem.lang.none": ("--lang needs a language after it: {languages}", "--lang 后面要写语言：{languages}"),
    "problem.utf8": (
        "the text holds bytes that are not UTF-8, at character {place}: set the terminal to UTF-8, or type it again",
        "文本的第 {place} 个字符不是 UTF-8：请把终端设为 UTF-8，或重新输入",
    ),
    "problem.seed.file": (
        "--seed draws vectors for a text; with --file nothing is drawn: leave it out",
        "--seed 用来为文本随机产生向量；用 --file 时没有随机数：请去掉它",
    ),
    "problem.empty": (
        'the text is empty: give at least one word, as in  qkv steps "我 爱 北京"',
        '文本是空的：请至少给一个词，例如  qkv steps "我 爱 北京"',
    ),
    "problem.text.or.file": (
        'give a text or --file, one of the two, as in  qkv steps "我 爱 北京"',
        '请给一段文本或 --file，二者选一，例如  qkv steps "我 爱 北京"',
    ),
    "problem.only.text": (
        "{option} goes with a text, not with --file: put it into the file ({inside})",
        "{option} 用于文本，不能与 --file 同用：请写进文件（{inside}）",
    ),
    "problem.heads": (
        "{name} is {width} wide, which doesn't divide into {n_head} heads: choose a divisor",
        "{name} 的宽度是 {width}，不能平分给 {n_head} 个头：头数要能整除宽度",
    ),
    "problem.file.missing": ("there is no file {file}", "没有 {file} 这个文件"),
    "problem.file.json": (
        "{file} can't be read: it is not JSON at line {line}, column {column}",
        "{file} 无法读取：第 {line} 行第 {column} 列不符合 JSON 格式",
    ),
    "problem.file.utf8": ("{file} can't be read: it is not text in UTF-8", "{file} 无法读取：不是 UTF-8 文本"),
    "problem.file.deep": (
        "{file} can't be read: it is nested too deeply, or a number in it is too long",
        "{file} 无法读取：嵌套太深，或其中的数太长",
    ),
    "problem.file.table": (
        '{file} can\'t be read: write {{"q": [[…]], "k": [[…]], "v": [[…]]}}',
        '{file} 无法读取：应写成 {{"q": [[…]], "k": [[…]], "v": [[…]]}}',
    ),
    "problem.file.npz": (
        "{file} can't be read: it is damaged, or holds something other than arrays of numbers; write it with np.savez",
        "{file} 无法读取：文件已损坏，或者存的不是数值数组；请用 np.savez 保存",
    ),
    "problem.file.kind": (
        "{file} is neither .json nor .npz: save the matrices as one of these",
        "{file} 既不是 .json 也不是 .npz：请把矩阵存成其中一种",
    ),
    "problem.file.key": (
        "{file} holds {key}, which is not used: it may hold {keys}",
        "{file} 里的 {key} 用不上：可以有 {keys}",
    ),
    "problem.file.near": (
        "{file} holds {key}, which is not used. Did you mean {near}? It may hold {keys}",
        "{file} 里的 {key} 用不上。是不是想写 {near}？可以有 {keys}",
    ),
    "problem.names.list": (
        "{name} is {value}: give a list with one name per token",
        "{name} 是 {value}：应是一个列表，每个词元一个名字",
    ),
    "problem.names": (
        "{given} names were given for {size} tokens: give one each",
        "给了 {given} 个名字，而词元有 {size} 个：请每个词元给一个",
    ),
    "problem.names.keys": (
        "{given} names of keys were given for {size} keys: give one each",
        "给了 {given} 个键的名字，而键有 {size} 个：请每个键给一个",
    ),
    "problem.names.memory": (
        "memory_names were given without memory: leave them out, or give memory",
        "给了 memory_names 却没有 memory：请去掉它，或者给出 memory",
    ),
    "problem.file.keys": (
        "{file} holds {keys}; it needs q, k and v, or x with w_q, w_k and w_v (and w_o, memory, mask, names if wanted)",
        "{file} 里有 {keys}；需要 q、k、v，或者 x 加 w_q、w_k、w_v（还可以有 w_o、memory、mask、names）",
    ),
    "problem.rule.items": (
        "{what} was given for {given} items but the batch has {batch}: give one entry per item",
        "{what} 给了 {given} 条，而这一批有 {batch} 条：请每条给一个",
    ),
    "problem.rule.keys": (
        "mask is {shape} but keys are {keys}: give one True/False per key; True = may attend",
        "掩码的形状是 {shape}，而键是 {keys}：请每个键给一个 True/False；True 表示可以关注",
    ),
    "problem.rule.documents": (
        "document ids are {shape} but keys are {keys}: give one document number per key",
        "文档编号的形状是 {shape}，而键是 {keys}：请每个键给一个文档编号",
    ),
    "problem.rule.dense": (
        "mask is {shape} but scores are {scores} (batch, heads, queries, keys): give (N, M), (B, N, M) or (B, H, N, M); "
        "for one True/False per key use masks.padding(mask); True = may attend",
        "掩码的形状是 {shape}，而分数是 {scores}（批、头、查询、键）：应为 (N, M)、(B, N, M) 或 (B, H, N, M)；"
        "若每个键一个 True/False，请用 masks.padding(mask)；True 表示可以关注",
    ),
    "problem.mask.word": ("no mask is called {name}; there are {words}", "没有叫 {name} 的掩码；有的是 {words}"),
    "problem.mask.near": (
        "no mask is called {name}. Did you mean {near}? There are {words}",
        "没有叫 {name} 的掩码。是不是想写 {near}？有的是 {words}",
    ),
    "problem.mask.empty": ("the name of a mask is missing; there are {words}", "缺少掩码的名字；有的是 {words}"),
    "problem.mask.form": ("{word} doesn't read as a mask: write {form}", "{word} 的写法不对：请写成 {form}"),
    "problem.mask.window": (
        "window({left}, {right}): count keys to each side, 0 or more; None is no limit",
        "window({left}, {right})：每一侧的键数应为 0 或更大的整数；None 表示不限",
    ),
    "problem.mask.lengths": (
        "lengths are {dtype}: give whole numbers (B,), or True/False per key (B, M)",
        "长度的类型是 {dtype}：请给整数 (B,)，或每个键一个 True/False (B, M)",
    ),
    "problem.mask.padding": (
        "padding is {shape} of {dtype}: give lengths (B,), or True/False per key (B, M) with True = a real key (if "
        "yours holds 1 and 0, write mask == 1)",
        "padding 的形状是 {shape}，类型是 {dtype}：请给长度 (B,)，或每个键一个 True/False (B, M)，True = 真实的键（如果是 1 和 0，请写 mask == 1）",
    ),
    "problem.mask.prefix": (
        "prefix lengths are {dtype}: give whole numbers, one or one per item",
        "前缀长度的类型是 {dtype}：请给整数，一个，或每条一个",
    ),
    "problem.mask.documents": (
        "document ids are {shape} of {dtype}: give whole numbers (M,) or (B, M)",
        "文档编号的形状是 {shape}，类型是 {dtype}：请给整数 (M,) 或 (B, M)",
    ),
    "problem.mask.dtype": (
        "mask has dtype {dtype}: it needs True (may attend) and False. If yours holds 1 and 0, write mask == 1; if "
        "it holds 0 and −inf, masks.from_additive(mask); if True means blocked, ~mask",
        "掩码的类型是 {dtype}：应为 True（可以看）和 False。如果是 1 和 0，请写 mask == 1；如果是 0 和 −inf，请用 masks.from_additive(mask)；如果 True 表示不能看，请写 ~mask",
    ),
    "problem.mask.axes": (
        "mask is {shape}: give (N, M), (B, N, M) or (B, H, N, M)",
        "掩码的形状是 {shape}：应为 (N, M)、(B, N, M) 或 (B, H, N, M)",
    ),
    "problem.mask.additive": (
        "an additive mask holds floats (0 and −inf), this one is {dtype}; use masks.dense",
        "加性掩码是浮点数（0 和 −inf），而这个是 {dtype}；请用 masks.dense",
    ),
    "problem.mask.bias": (
        "this additive mask holds numbers other than 0 and −inf: that is a bias; give it as attend(..., bias=...)",
        "这个加性掩码里有 0 和 −inf 以外的数：那是偏置；请写成 attend(..., bias=...)",
    ),
    "problem.mask.heads": (
        "attn_mask is {shape}, (B·heads, N, M): give n_head, a divisor of it",
        "attn_mask 的形状是 {shape}，即 (B·头数, N, M)：请给出能整除它的 n_head",
    ),
    "problem.mask.file": (
        "the mask holds {value}: write 1 or true where a query may look, 0 or false where not",
        "掩码里有 {value}：可以看的地方写 1 或 true，不能看的地方写 0 或 false",
    ),
    "problem.verb": (
        "there is no verb {verb}; there are {verbs}. See  {near} --help",
        "没有 {verb} 这个命令；有的是 {verbs}。请看  {near} --help",
    ),
    "problem.option": ("{option} needs a verb before it; see  qkv --help", "{option} 前面要有命令；请看  qkv --help"),
    "problem.number": ("{option} is {value}: give {wanted}", "{option} 是 {value}：应为 {wanted}"),
    "problem.overflow": (
        "{name} at {place} is {value}, beyond what float64 holds (1.8e308): make the numbers smaller",
        "{name} 在 {place} 处是 {value}，超出了 float64 的范围（1.8e308）：请把数改小",
    ),
    "problem.large": (
        "{name} holds a number beyond what float64 holds (1.8e308): make it smaller",
        "{name} 里有超出 float64 范围（1.8e308）的数：请改小",
    ),
    "problem.scale": (
        "scale is {value}: give a finite number, 1 for no scaling, or None for 1/√d",
        "缩放系数 scale 是 {value}：应为有限的数；1 表示不缩放，None 表示 1/√d",
    ),
    "problem.softcap": (
        "softcap is {value}: give a positive number, or None for no cap",
        "softcap 是 {value}：应为正数；None 表示不限幅",
    ),
    "problem.bias": (
        "bias is {shape} but scores are {scores} (batch, heads, queries, keys): it must broadcast to them",
        "bias 的形状是 {shape}，而分数是 {scores}（批，头，查询，键）：它要能广播到这个形状",
    ),
    "problem.bias.value": (
        "bias holds {value} at {place}: give finite numbers, or −inf to hide a pair",
        "bias 在 {place} 处是 {value}：应为有限的数，或用 −inf 隐藏一对",
    ),
    "problem.sinks": (
        "sinks are {shape}: give one finite number per head, ({heads},)",
        "sinks 的形状是 {shape}：每个头要有一个有限的数，即 ({heads},)",
    ),
    "problem.nonfinite": (
        "{name} holds {value} at {place}: attention needs finite numbers",
        "{name} 在 {place} 处是 {value}：注意力只能计算有限的数",
    ),
    "problem.rows": (
        "{name} is {shape} but the vectors are {width} wide: it needs {width} rows",
        "{name} 的形状是 {shape}，而向量的宽度是 {width}：它应有 {width} 行",
    ),
    "problem.none": (
        "{name} is {shape}: it needs at least one row and one column",
        "{name} 的形状是 {shape}：至少要有一行一列",
    ),
    "problem.matrix": (
        "{name} is not a matrix of numbers: give rows of equal length that hold nothing but numbers",
        "{name} 不是由数组成的矩阵：每一行要一样长，而且只能是数",
    ),
    "problem.axes": (
        "{name} has {axes} axes, shape {shape}: it needs {wanted}",
        "{name} 的形状是 {shape}，有 {axes} 个轴：应有 {wanted} 个",
    ),
    "problem.shape.axes": (
        "{name} is {shape}: it needs four axes (batch, heads, tokens, head width)",
        "{name} 的形状是 {shape}：应有四个轴（批，头，词元，头宽）",
    ),
    "problem.shape.same": (
        "q, k, v are {q}, {k}, {v}: give all three the same number of axes",
        "q、k、v 的形状是 {q}、{k}、{v}：三者的轴数要相同",
    ),
    "problem.shape.batch": (
        "batches differ: q has {q}, k has {k}, v has {v}; give all three the same batch",
        "批的大小不同：q 是 {q}，k 是 {k}，v 是 {v}；三者要相同",
    ),
    "problem.shape.width": (
        "q is {q} wide but k is {k}: a dot product needs equal widths",
        "q 的宽度是 {q}，k 的宽度是 {k}：做点积需要宽度相同",
    ),
    "problem.shape.values": (
        "there are {k} keys but {v} values: give one value per key",
        "有 {k} 个键，却有 {v} 个值：每个键要有一个值",
    ),
    "problem.shape.heads": (
        "k has {k} heads but v has {v}: give both the same",
        "k 有 {k} 个头，v 有 {v} 个头：两者要相同",
    ),
    "problem.shape.groups": (
        "{q} query heads don't divide over {k} key heads: the first must be a multiple",
        "{q} 个查询头不能平分给 {k} 个键头：前者要是后者的整数倍",
    ),
    "problem.shape.memory": (
        "x is {x} but memory is {memory}: both need the same batch",
        "x 的形状是 {x}，memory 的形状是 {memory}：两者的批要相同",
    ),
    "problem.tiles.block": (
        "a block of {block} keys holds nothing; give 1 or more",
        "每块 {block} 个键是空的：应为 1 或更多",
    ),
    "problem.tiles.axes": (
        "tiles shows one head: q is {shape}, it needs (N, D)",
        "tiles 只显示一个头：q 的形状是 {shape}，应为 (N, D)",
    ),
    "problem.train.what": (
        "say what to train, as in  qkv train lm --text mybook.txt, or what to go on with, --resume RUN",
        "请说明训练什么，例如  qkv train lm --text mybook.txt，或者接着训练 --resume RUN",
    ),
    "problem.train.text": (
        "training {task} needs a text: --text FILE, a folder, a glob, or a data set (see  qkv data)",
        "训练 {task} 需要文本：--text 文件、文件夹、通配符，或数据集（见  qkv data）",
    ),
    "problem.set": ("{text} is no setting: write --set name=value", "{text} 不是一个设置：请写 --set 名字=值"),
    "problem.data.name": ("qkv data {what} needs a name; see  qkv data", "qkv data {what} 后面要有名字；见  qkv data"),
    "problem.data.out": ("say where the tokens go: --out FOLDER", "请说明词元存到哪里：--out 文件夹"),
    "problem.model.kind": (
        "{model} is a model of kind {kind}: {verb} needs one of kind {needed}",
        "{model} 是 {kind} 类的模型：{verb} 需要 {needed} 类的模型",
    ),
    "problem.model.none": (
        "say which model: --model RUN, the folder of a run (make one with  qkv train)",
        "请说明用哪个模型：--model RUN，即一次训练的文件夹（用  qkv train 训练一个）",
    ),
    "problem.text.none": ("give a text, as in  {example}", "请给一段文本，例如  {example}"),
    # commands
    "train.model": (
        "{n} parameters: {layers} layers, width {width}, vocabulary {vocab}",
        "{n} 个参数：{layers} 层，宽 {width}，词表 {vocab}",
    ),
    "train.begin": ("training {last} steps into {run}", "训练 {last} 步，存于 {run}"),
    "train.from": ("going on at step {first} of {last} in {run}", "从第 {first} 步接着训练，共 {last} 步，存于 {run}"),
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
    "why.damaged": ("passed over a damaged checkpoint: {problem}", "跳过一个损坏的检查点：{problem}"),
    "data.get": ("Get one with  qkv data get NAME", "下载：qkv data get 名字"),
    "data.removed": ("removed {name}", "已删除 {name}"),
    "data.absent": ("{name} was not here", "本机没有 {name}"),
    "data.prepared": (
        "{train} tokens to learn from and {validation} to test with, in {folder}",
        "训练用 {train} 个词元，验证用 {validation} 个，存于 {folder}",
    ),
    "generate.speed": (
        "{prompt} prompt tokens in {before} s ({reading} tokens/s) · {made} new ones, {speed} tokens/s",
        "提示 {prompt} 个词元，用时 {before} 秒（每秒 {reading} 个）· 新增 {made} 个，每秒 {speed} 个",
    ),
    "problem.models.name": (
        "qkv models {what} needs a name; see  qkv models",
        "qkv models {what} 后面要有名字；见  qkv models",
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
    "problem.chat.template": (
        "{model} has no chat template, so it wasn't made to chat: use  qkv generate",
        "{model} 没有对话模板，不是对话模型：请用  qkv generate",
    ),
    "problem.chat.long": (
        "this takes {tokens} tokens and the context has room for {room} before an answer of {most}: shorten it, or lower --most",
        "这段话有 {tokens} 个词元，而给 {most} 个词元的回答留出位置后，上下文只能放 {room} 个：请缩短，或减小 --most",
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
    "translate.demo": (
        "a small model that ships with qkv, trained on dates alone by: {command}",
        "这是随 qkv 附带的小模型，只学过日期，由此命令训练：{command}",
    ),
    # what the system refused, by its name in errno
    "os.ENOSPC": ("the disk is full", "磁盘已满"),
    "os.EDQUOT": ("the disk quota is used up", "磁盘配额已用完"),
    "os.EACCES": ("permission denied", "没有权限"),
    "os.EPERM": ("operation not permitted", "不允许这样操作"),
    "os.ENOENT": ("there is no such file or folder", "没有这个文件或文件夹"),
    "os.EISDIR": ("that is a folder", "这是一个文件夹"),
    "os.ENOTDIR": ("part of the path is not a folder", "路径中有一段不是文件夹"),
    "os.EEXIST": ("that exists already", "已经存在"),
    "os.EROFS": ("the disk can only be read", "磁盘是只读的"),
    "os.EIO": ("the disk has an error", "磁盘出错"),
    "os.ENAMETOOLONG": ("the name is too long", "名字太长"),
    "os.EMFILE": ("too many files are open", "打开的文件太多"),
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
    "problem.only.model": ("{option} goes with --model", "{option} 要与 --model 同用"),
    "problem.not.model": (
        "{option} doesn't go with --model, whose numbers are all its own: leave it out",
        "{option} 不能与 --model 同用：模型的数都是它自己的。请去掉它",
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
