"""The mistakes that commands refuse themselves, and what the system refused."""

SENTENCES: dict[str, tuple[str, str]] = {
    "problem": ("qkv: {sentence}", "qkv：{sentence}"),
    "problem.english": ("qkv: {sentence}", "qkv：{sentence}（此说明只有英文）"),
    "problem.word": ("{word} is not in the text; there are: {words}", "文中没有 {word}，只有：{words}"),
    "problem.bug": (
        "this is a bug of qkv, not a mistake of yours ({error}). Please report it; QKV_DEBUG=1 shows the traceback",
        "这是 qkv 自身的错误（{error}），与用法无关。请报告给我们；设置 QKV_DEBUG=1 可以看到完整的出错信息",
    ),
    "memory.full": (
        "memory is full: {size} was asked for and {free} is free. Take less text, a smaller batch, or a smaller model",
        "内存不够：需要 {size}，空闲 {free}。请减少文本、减小批量，或用更小的模型",
    ),
    "memory.model": (
        "a model of {weights} weights takes at least {size} to train and {free} of memory is free: make width, n_layer "
        "or hidden smaller",
        "训练一个有 {weights} 个权重的模型至少需要 {size} 内存，而空闲的只有 {free}：请减小 width、n_layer 或 hidden",
    ),
    "memory.batch": (
        "a batch of {rows} rows of {tokens} tokens takes at least {size} and {free} of memory is free: give a smaller "
        "--batch or --context, or --set accumulate=N",
        "每批 {rows} 行、每行 {tokens} 个词元，至少需要 {size} 内存，而空闲的只有 {free}：请减小 --batch 或 --context，"
        "或用 --set accumulate=N",
    ),
    "memory.cache": (
        "keys and values of {tokens} tokens take {size} and {free} of memory is free: ask for fewer new tokens (--most), "
        "or fewer texts at once",
        "{tokens} 个词元的键和值需要 {size} 内存，而空闲的只有 {free}：请减少要生成的词元（--most），或减少同时处理的文本",
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
        "there is no verb {verb}; there are {verbs}. See  qkv --help",
        "没有 {verb} 这个命令；有的是 {verbs}。请看  qkv --help",
    ),
    "problem.verb.near": (
        "there is no verb {verb}: did you mean {near}? See  qkv {near} --help",
        "没有 {verb} 这个命令：是不是想写 {near}？请看  qkv {near} --help",
    ),
    "problem.option.near": (
        "{verb} has no option {option}: did you mean {near}? See  {verb} --help",
        "{verb} 没有 {option} 这个选项：是不是想写 {near}？请看  {verb} --help",
    ),
    "problem.option.none": (
        "{verb} has no option {option}; see  {verb} --help",
        "{verb} 没有 {option} 这个选项；请看  {verb} --help",
    ),
    "problem.extra": (
        "{verb} doesn't know what to do with {rest}: a text of several words stands in quotes; see  {verb} --help",
        "{verb} 不知道怎样处理 {rest}：由几个词组成的文本要加引号；请看  {verb} --help",
    ),
    "problem.option.empty": (
        "{option} is empty: give it a value, or leave it out",
        "{option} 是空的：请给一个值，或去掉它",
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
    "problem.set.twice": (
        "{name} is set twice: --set {name}={set} and {option} {value}; leave one out",
        "{name} 给了两次：--set {name}={set} 和 {option} {value}；请去掉一个",
    ),
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
    "problem.text.two": (
        "give the text in one way: as an argument, by - from a pipe, or by --file, as in  {example}",
        "文本只能用一种方式给出：直接写、用 - 从管道读，或用 --file，例如  {example}",
    ),
    "problem.text.utf8": (
        "{what} can't be read: byte {byte} in line {line} is not UTF-8; convert it first, as in  "
        "iconv -f GB18030 -t UTF-8",
        "{what} 无法读取：第 {line} 行的字节 {byte} 不是 UTF-8；请先转换，例如  iconv -f GB18030 -t UTF-8",
    ),
    "problem.stdin.none": ("- reads from a pipe, and there is none", "- 表示从管道读取，但这里没有管道"),
    "problem.line": ("line {line}: {problem}", "第 {line} 行：{problem}"),
    "problem.lines.option": (
        "{option} goes with one text, not with lines: leave it out",
        "{option} 只用于单段文本，逐行时请去掉",
    ),
    "text.typing": (
        "type the text, then end it with Ctrl-D on a line of its own (Windows: Ctrl-Z and Enter)",
        "请输入文本，最后在新的一行按 Ctrl-D 结束（Windows：Ctrl-Z 再回车）",
    ),
    "problem.models.name": (
        "qkv models {what} needs a name; see  qkv models",
        "qkv models {what} 后面要有名字；见  qkv models",
    ),
    "problem.chat.template": (
        "{model} has no chat template among its files (chat_template.jinja, or a line in tokenizer_config.json), so how a "
        "chat is written for it isn't known: continue a text with  qkv generate",
        "{model} 没有附带对话模板（chat_template.jinja，或 tokenizer_config.json 中的一项），无法知道对话该怎样写给它："
        "请用  qkv generate  续写文本",
    ),
    "problem.chat.long": (
        "this takes {tokens} tokens and the context has room for {room} before an answer of {most}: shorten it, or lower --most",
        "这段话有 {tokens} 个词元，而给 {most} 个词元的回答留出位置后，上下文只能放 {room} 个：请缩短，或减小 --most",
    ),
    "problem.only.model": ("{option} goes with --model", "{option} 要与 --model 同用"),
    "problem.not.model": (
        "{option} doesn't go with --model, whose numbers are all its own: leave it out",
        "{option} 不能与 --model 同用：模型的数都是它自己的。请去掉它",
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
}
