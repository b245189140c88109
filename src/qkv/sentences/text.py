"""Mistakes that tokenizers, corpora and pairs refuse."""

SENTENCES: dict[str, tuple[str, str]] = {
    # tokenizers
    "text.id": (
        "token id {i} does not exist: this tokenizer has ids 0 to {last}",
        "没有编号为 {i} 的词元：这个分词器的编号是 0 到 {last}",
    ),
    "text.characters": (
        "this tokenizer knows the {n} characters of the text it was made from, not {shown}: leave them out, or train with "
        "the tokenizer bytes or bpe, which take any text",
        "这个分词器只认识训练文本里的 {n} 个字符，不认识 {shown}：请去掉它们，或者用 bytes、bpe 分词来训练，它们能处理任何文本",
    ),
    "text.alphabet": (
        "the alphabet is empty: give the text, or the characters, that the tokenizer should know",
        "字符表是空的：请给出文本，或者分词器应当认识的字符",
    ),
    "text.special": (
        "there is no special token {role}: choose from {roles}",
        "没有特殊词元 {role}：可选 {roles}",
    ),
    "text.half": (
        "the text holds half a character, {code}, at position {at}: it was cut or read in the wrong encoding; read it as "
        "UTF-8",
        "文本在位置 {at} 有半个字符 {code}：它被截断了，或者编码读错了；请按 UTF-8 读取",
    ),
    "text.tokenizer.none": (
        "no tokenizer at {file}: give a folder with a tokenizer.json, or that file",
        "{file} 处没有分词器：请给出含有 tokenizer.json 的文件夹，或者这个文件本身",
    ),
    "text.tokenizer.damaged": (
        "{file} is not a tokenizer of the `tokenizers` library ({why})",
        "{file} 不是 `tokenizers` 库的分词器（{why}）",
    ),
    "text.json": (
        "{file} can't be read as it should: {why}. Fetch or copy it again",
        "{file} 读不出应有的内容：{why}。请重新下载或复制",
    ),
    "text.file": ("{file} can't be read: {why}", "无法读取 {file}：{why}"),
    "text.sentencepiece": (
        "{file} is not a SentencePiece model that can be read: {why}. Fetch or copy it again",
        "{file} 不是可以读取的 SentencePiece 模型：{why}。请重新下载或复制",
    ),
    "text.pieces.kind": ("its kind is {kind}, not unigram or bpe", "它的类型是 {kind}，不是 unigram 或 bpe"),
    "text.pieces.suffix": (
        "it writes the space at the end of words, which is not supported",
        "它把空格写在词尾，这里不支持",
    ),
    "text.pieces.none": ("it has no pieces", "其中没有词片"),
    "text.pieces.twice": ("it has a piece twice", "有重复的词片"),
    "text.pieces.map.cut": ("its map of characters is cut", "字符映射表不完整"),
    "text.pieces.map.outside": ("its map of characters leads outside itself", "字符映射表指向了表外"),
    "text.pieces.map.texts": ("its map of characters leads outside its texts", "字符映射表指向了替换文本之外"),
    "text.pieces.score": (
        "a piece has no finite score or an unknown type",
        "有词片的分数不是有限的数，或类型未知",
    ),
    "text.pieces.field": ("there is no field of kind {kind}", "没有类型为 {kind} 的字段"),
    "text.pieces.cut": ("it is cut, or not a SentencePiece model", "文件不完整，或不是 SentencePiece 模型"),
    "text.pieces.number": ("a number in it never ends", "其中有一个数没有结尾"),
    "text.pieces.bytes": ("bytes stand where a number should", "应为数字之处是字节串"),
    "text.pieces.numbers": ("a number stands where bytes should", "应为字节串之处是数字"),
    "text.pieces.utf8": ("a text in it is no UTF-8", "其中有文本不是 UTF-8"),
    "text.vocabulary": (
        "the vocabulary is damaged ({why}): fetch or copy the model again",
        "词表已损坏（{why}）：请重新下载或复制这个模型",
    ),
    "text.vocabulary.missing": (
        "the vocabulary beside {file} has no {names}: it is not the one of this model",
        "{file} 旁边的词表里没有 {names}：它不是这个模型的词表",
    ),
    "text.vocabulary.twice": (
        "the vocabulary beside {file} has a name twice, or one that is no text: it is damaged; fetch or copy it again",
        "{file} 旁边的词表有重复的名字，或者有不是文本的项：它已损坏；请重新下载或复制",
    ),
    "text.habits": (
        "{file} says {names}, which qkv does not obey: texts may come out otherwise than its makers meant",
        "{file} 里写着 {names}，qkv 不支持：生成的文本可能与作者预期的不同",
    ),
    "text.added": (
        "{name} should have id {i} and got {got} after {file}: the vocabulary is not the one of this model",
        "{name} 的编号应为 {i}，在 {file} 之后却是 {got}：这不是这个模型的词表",
    ),
    "text.gguf.model": (
        "this GGUF has a tokenizer of kind {model}: {known} can be read",
        "这个 GGUF 的分词器是 {model} 类：能读的有 {known}",
    ),
    "text.gguf.pre": (
        "this GGUF cuts its text in the way of {pre}, which is not known here: {known} are. Use the model's folder with "
        "its tokenizer.json instead",
        "这个 GGUF 按 {pre} 的方式切分文本，这里还不认识；认识的有 {known}。请改用带有 tokenizer.json 的模型文件夹",
    ),
    "text.gguf.tokens": (
        "this GGUF has no list of tokens: it is damaged, or holds no language model",
        "这个 GGUF 没有词元表：它已损坏，或者不是语言模型",
    ),
    "text.gguf.lengths": (
        "this GGUF is damaged: {name} has {n} entries for {tokens} tokens",
        "这个 GGUF 已损坏：{name} 有 {n} 项，词元却有 {tokens} 个",
    ),
    "text.kind": (
        "there is no tokenizer {kind}: choose from {kinds}, or auto",
        "没有分词器 {kind}：可选 {kinds}，或 auto",
    ),
    "text.vocab.kind": (
        "vocab={vocab} is for bpe: the vocabulary of {kind} comes from the {kind} themselves",
        "vocab={vocab} 只用于 bpe：{kind} 的词表由文本本身决定",
    ),
    "text.vocab.small": (
        "vocab={vocab} is too small for bpe: 256 bytes and {special} special tokens need {least}",
        "vocab={vocab} 对 bpe 来说太小：256 个字节加 {special} 个特殊词元，至少要 {least}",
    ),
    "text.vocab.text": (
        "there is no text to learn from: bpe counts which pieces are frequent in it",
        "没有可学的文本：bpe 要统计文本中哪些片段常见",
    ),
    # corpora
    "text.corpus.unnamed": (
        "the name of the text is empty: give a file, a folder or a glob",
        "文本的名字是空的：请给出文件、文件夹或通配符",
    ),
    "text.corpus.empty": (
        "{what} is empty: a corpus needs text to learn from, a few thousand characters at least",
        "{what} 是空的：语料要有可学的文本，至少几千个字符",
    ),
    "text.corpus.validation": (
        "validation={validation} must be a share of the text, 0 (none) up to but below 1",
        "validation={validation} 应为文本的占比：从 0（不留）到小于 1",
    ),
    "text.corpus.shorter": (
        "{path} became shorter while it was read: leave it alone and start again",
        "{path} 在读取时变短了：请不要改动它，重新开始",
    ),
    "text.corpus.folder": (
        "the folder {path} has no {suffixes} files (it has {found}): for other files give a glob in quotes, such as "
        '"{path}/**/*.py"',
        '文件夹 {path} 里没有 {suffixes} 文件（有：{found}）：别的文件请用引号括起的通配符，例如 "{path}/**/*.py"',
    ),
    "text.corpus.glob": (
        "no file matches {source}: ** means any folders, * any name",
        "没有文件匹配 {source}：** 表示任意层文件夹，* 表示任意名字",
    ),
    "text.corpus.missing": (
        "there is no file or folder {path}: {folder} has nothing of a similar name",
        "没有文件或文件夹 {path}：{folder} 里也没有名字相近的",
    ),
    "text.corpus.missing.near": (
        "there is no file or folder {path}: did you mean {near}?",
        "没有文件或文件夹 {path}：是不是 {near}？",
    ),
    "text.corpus.missing.folder": (
        "there is no file or folder {path}: there is no folder {folder} either",
        "没有文件或文件夹 {path}：连文件夹 {folder} 也没有",
    ),
    "text.corpus.utf16": (
        "{path} is UTF-16, not UTF-8: convert it with  {command}",
        "{path} 是 UTF-16，不是 UTF-8：请转换  {command}",
    ),
    "text.corpus.binary": (
        "{path} is not text (byte {at} is zero, as in programs and pictures): give plain text files",
        "{path} 不是文本（第 {at} 个字节是零，像程序或图片）：请给纯文本文件",
    ),
    "text.corpus.utf8": (
        "{path} is not UTF-8: byte {at} is {byte}: if you know its encoding, convert it with  {command}",
        "{path} 不是 UTF-8：第 {at} 个字节是 {byte}：如果知道它的编码，请转换  {command}",
    ),
    "text.corpus.encoding": (
        "{path} is not UTF-8: byte {at} is {byte}, but it reads as {encoding}: convert it with  {command}",
        "{path} 不是 UTF-8：第 {at} 个字节是 {byte}，但可以按 {encoding} 读：请转换  {command}",
    ),
    # prepared tokens
    "text.tokens.none": (
        "{folder} has no index.json of prepared tokens: make it with `qkv data prepare`",
        "{folder} 里没有处理好的词元的 index.json：请用 `qkv data prepare` 生成",
    ),
    "text.tokens.unfinished": (
        "{folder} was not finished: prepare it again, it goes on where it stopped",
        "{folder} 还没有处理完：再运行一次，会从停下的地方继续",
    ),
    "text.tokens.index": (
        "{file} is not an index of {form}: choose another folder, or remove that file",
        "{file} 不是 {form} 的索引：请换一个文件夹，或删除这个文件",
    ),
    "text.tokens.size": (
        "{file} should have {wanted} bytes and has {size}: remove the folder and prepare again",
        "{file} 应有 {wanted} 字节，实有 {size}：请删除这个文件夹，重新处理",
    ),
    "text.context": (
        "the {split} text has {n} tokens, but a context of {context} needs at least {least}: give more text, or a context "
        "of at most {most}",
        "{split}文本有 {n} 个词元，而长度为 {context} 的上下文至少要 {least} 个：请给更多文本，或者上下文不超过 {most}",
    ),
    "text.context.none": (
        "the {split} text has {n} tokens, but a context of {context} needs at least {least}: give more text",
        "{split}文本有 {n} 个词元，而长度为 {context} 的上下文至少要 {least} 个：请给更多文本",
    ),
    "text.shards.full": (
        "the disk of {folder} is full: what is written stays; free some space and prepare again to go on",
        "{folder} 所在的磁盘已满：写好的会保留；请腾出空间，再运行一次继续",
    ),
    # sentence pairs
    "text.pairs.none": (
        "there is no file {path}: a pairs file has one pair per line, source TAB target",
        "没有文件 {path}：句对文件每行一对，源文 TAB 译文",
    ),
    "text.pairs.utf8": (
        "{path} is not UTF-8 (byte {at}): save it as UTF-8 text",
        "{path} 不是 UTF-8（第 {at} 个字节）：请存为 UTF-8 文本",
    ),
    "text.pairs.empty": (
        "{path} has no pairs: put one on each line, source TAB target",
        "{path} 里没有句对：每行写一对，源文 TAB 译文",
    ),
    "text.pairs.column": (
        "line {number} of {path} has no {name} column: column {column} is wanted, {there} there ({line}){hint}; write "
        "source TAB target",
        "{path} 第 {number} 行没有{name}列：要第 {column} 列，只有 {there} 列（{line}）{hint}；请写 源文 TAB 译文",
    ),
    "text.pairs.cell": (
        "line {number} of {path} has an empty {name}: fill column {column} or remove the line",
        "{path} 第 {number} 行的{name}是空的：请填上第 {column} 列，或删除这一行",
    ),
    "text.pairs.special": (
        'the tokenizer has no {missing} token, which sentence pairs need: make it with special=("pad", "bos", "eos", '
        '"unk")',
        '分词器没有 {missing} 词元，而句对需要它：制作时请加 special=("pad", "bos", "eos", "unk")',
    ),
    "text.pairs.nothing": (
        "there are no pairs to learn from: give at least one (source, target)",
        "没有可学的句对：至少给一对（源文，译文）",
    ),
    # made-up tasks
    "text.dates": (
        "dates are not translated to {target}: choose from {targets}",
        "日期不能译成 {target}：可选 {targets}",
    ),
    "text.task": ("there is no task {task}: choose from {tasks}", "没有任务 {task}：可选 {tasks}"),
    "text.symbols": (
        "vocab={vocab} leaves no symbols: ids 0 to 2 are pad, bos and separator, so give 5 or more",
        "vocab={vocab} 没有留下符号：编号 0 到 2 是 pad、bos 和分隔符，请给 5 或更多",
    ),
    # chats
    "text.frame": (
        "{name}, which it puts around a text, is none of its tokens",
        "它放在文本两端的 {name} 不是它的词元",
    ),
    "text.unknown": (
        "this tokenizer has no token for {piece}, and none for what it doesn't know",
        "这个分词器没有表示 {piece} 的词元，也没有表示未知内容的词元",
    ),
    "text.unknown.token": (
        "its vocabulary lacks {name}, its own token for what it doesn't know: fetch or copy the model again",
        "词表里没有表示未知内容的词元 {name}：请重新下载或复制这个模型",
    ),
    "text.encode": ("this tokenizer can't cut the text: {why}", "这个分词器无法切分这段文本：{why}"),
    "text.token.long": (
        "a token of its vocabulary, {begins}…, has {n} characters and none may have more than {most}",
        "词表里的词元 {begins}… 有 {n} 个字符，而每个词元最多只能有 {most} 个",
    ),
    "text.extra": (
        "{file}: extra_ids is {value}, not a number from 0 to {most}",
        "{file}：extra_ids 是 {value}，应为 0 到 {most} 的整数",
    ),
    "text.role": (
        "{file}: {name} is {value}, not the id of a token",
        "{file}：{name} 是 {value}，不是词元的编号",
    ),
    "text.chat.none": (
        "this model has no chat template among its files, so how a chat is written for it isn't known: continue a text "
        "with  qkv generate",
        "这个模型没有附带对话模板，无法知道对话该怎样写给它：请用  qkv generate  续写文本",
    ),
    "text.chat.template": ("the model's chat template refuses: {why}", "模型的对话模板拒绝了：{why}"),
    "text.chat.long": (
        "the model's chat template ran for more than {seconds} seconds and was stopped",
        "模型的对话模板运行超过 {seconds} 秒，已停止",
    ),
    "text.chat.large": (
        "the model's chat template makes more than memory and models hold, and was stopped",
        "模型的对话模板产生的内容过大，超出了内存和模型的容量，已停止",
    ),
    "text.chat.start": (
        "the process that runs chat templates can't be started: {why}",
        "无法启动运行对话模板的进程：{why}",
    ),
    "text.chat.marks": (
        "the chat uses every one of the 32 codes that Unicode keeps free of characters: leave one out",
        "对话用到了 Unicode 保留的全部 32 个非字符码位：请至少去掉一个",
    ),
    "text.chat.message": (
        'a message is {{"role": …, "content": …}}, not {message}',
        '一条消息应为 {{"role": …, "content": …}}，而不是 {message}',
    ),
}
