"""Mistakes that models, weights and generation refuse."""

SENTENCES: dict[str, tuple[str, str]] = {
    "describe.pooler": ("pooler", "池化层"),
    "model.config.whole": (
        "{name} is {value}: give a whole number, 1 or more",
        "{name} 是 {value}：应为不小于 1 的整数",
    ),
    "model.config.window": (
        "window is {value}: give a whole number, 0 or more, or none",
        "window 是 {value}：应为不小于 0 的整数，或 none",
    ),
    "model.config.number": ("{name} is {value}: give a number above 0", "{name} 是 {value}：应为大于 0 的数"),
    "model.config.bool": ("{name} is {value}: give true or false", "{name} 是 {value}：应为 true 或 false"),
    "model.config.layers": (
        "{name} is {value}: {most} layers are the most that are built",
        "{name} 是 {value}：最多只能建立 {most} 层",
    ),
    "model.config.table": (
        "a model is described by names and values, not by {value}",
        "模型由名字和值来描述，而不是 {value}",
    ),
    "model.config.scaling": (
        'rotary_scaling is {value}: give none, or an object such as {{"kind": "linear", "factor": 2}}',
        'rotary_scaling 是 {value}：应为 none，或 {{"kind": "linear", "factor": 2}} 这样的对象',
    ),
    "model.config.sides": (
        "{setting} tells the sides of an encoder-decoder apart: kind is {kind}, which has one; leave it out",
        "{setting} 用来区分编码器-解码器的两侧；{kind} 只有一侧，请去掉这个设置",
    ),
    "model.config.types": (
        "token_types is {value}: give a whole number, 0 for none",
        "token_types 是 {value}：应为整数，0 表示没有",
    ),
    "model.config.types.kind": (
        "token_types={types} belongs to an encoder: kind is {kind}, which has none; set 0",
        "token_types={types} 只适用于编码器（encoder）；{kind} 没有词元类型，请设为 0",
    ),
    "model.config.encoder": (
        "{setting} belongs to an encoder, which gives states: kind is {kind}, which needs a head; leave it out",
        "{setting} 只适用于输出隐状态的编码器（encoder）；{kind} 需要输出头，请去掉这个设置",
    ),
    "model.config.head": (
        "{name} belongs to head 'linear': leave it out for head {head!r}",
        "{name} 只适用于 head 'linear'；head 为 {head!r} 时请去掉它",
    ),
    "model.config.dropout": (
        "dropout is {value}: give a share from 0 up to, not including, 1",
        "dropout 是 {value}：应为 0 到 1 之间的比例，可以是 0，不能是 1",
    ),
    "model.config.heads": (
        "width {width} doesn't divide into {heads} heads: choose a divisor, or give head_width",
        "宽度 {width} 无法平均分给 {heads} 个头：请选一个约数，或给出 head_width",
    ),
    "model.config.groups": (
        "{heads} heads don't divide over n_kv_head={groups}: give a divisor",
        "{heads} 个头无法平均分到 n_kv_head={groups} 组：请给一个约数",
    ),
    "model.config.few": (
        "relative_buckets is {buckets}: give 4 or more, a near and a far one for each direction",
        "relative_buckets 是 {buckets}：至少要 4 个，两个方向各需要一个近的和一个远的",
    ),
    "model.config.buckets": (
        "relative_distance is {distance}, but half of the {buckets} buckets are one distance each: give more than that",
        "relative_distance 是 {distance}，而 {buckets} 个桶里有一半各占一个距离：请给一个更大的距离",
    ),
    "model.config.latent": (
        "mixer 'latent' carries its own rotary key: position {position!r} can't be added to it",
        "mixer 'latent' 自带旋转位置的键，不能再加 position {position!r}",
    ),
    "model.config.latent.none": (
        "mixer 'latent' has no {name}: leave it out, or choose mixer 'attention'",
        "mixer 'latent' 没有 {name}：请去掉它，或改用 mixer 'attention'",
    ),
    "model.config.unknown": (
        "there is no setting {name!r}. All of them: {known}",
        "没有 {name!r} 这个设置。全部设置：{known}",
    ),
    "model.config.unknown.near": (
        "there is no setting {name!r}; did you mean {near!r}? All of them: {known}",
        "没有 {name!r} 这个设置，是不是想写 {near!r}？全部设置：{known}",
    ),
    "model.config.form": (
        "{text!r} is no setting: write name=value, as in width=256",
        "{text!r} 不是设置：请写成 名称=值，例如 width=256",
    ),
    "model.family.strange": (
        "model_type {word!r} is not one of {known}; the nearest in its settings is {nearest!r}, but it is not the same",
        "model_type {word!r} 不在可读的家族之中：{known}。设置最接近的是 {nearest!r}，但两者并不相同",
    ),
    "model.family.silent": (
        "this config.json says nothing of {name}, which a {word} needs",
        "这个 config.json 没有 {name}，而 {word} 需要它",
    ),
    "model.family.insist": (
        "{name} is {value} in this config.json: qkv reads it with {wanted} only",
        "这个 config.json 里 {name} 是 {value}；qkv 只读得懂 {wanted}",
    ),
    "model.family.differ": (
        "{first} and {second} differ in this config.json ({a} and {b}): qkv reads models in which they are one number",
        "这个 config.json 里 {first} 与 {second} 不同（{a} 与 {b}）；qkv 只能读两者相同的模型",
    ),
    "model.family.activation": (
        "the activation {word!r} has no word in qkv: it knows {known}",
        "qkv 不认识激活函数 {word!r}，只认识：{known}",
    ),
    "model.family.windows": (
        "only {some} of {all} layers have a window: qkv reads a window that all share",
        "{all} 层里只有 {some} 层有窗口；qkv 只能读所有层共用一个窗口的模型",
    ),
    "model.family.rotary": (
        "rotary scaling {kind!r} has no word in qkv: it knows {known}",
        "qkv 不认识旋转位置的缩放方式 {kind!r}，只认识：{known}",
    ),
    "model.family.rotary.more": (
        "rotary scaling {kind!r} with {names} is more than qkv knows",
        "旋转位置的缩放方式 {kind!r} 还带有 qkv 不认识的 {names}",
    ),
    "model.family.apart": (
        "config.json says that these tensors are one, but the file holds two that differ ({names}): the model is built "
        "with both, as the file has them. If the file was changed or mixed with another's, get it again",
        "config.json 说下列张量是同一个，但文件里是两个不同的（{names}）：模型按文件里的各自使用。如果文件被改动过或混入了别的模型，请重新获取",
    ),
    "model.family.sides": (
        "the encoder and the decoder of this {family} read different word vectors ({names}): qkv reads models whose "
        "sides share them",
        "这个 {family} 的编码器和解码器使用不同的词向量（{names}）；qkv 只能读两侧共用词向量的模型",
    ),
    "model.family.sines": (
        "{names} are not the sines that a Marian computes: the file's own are used",
        "{names} 不是 Marian 按公式计算的正弦值：使用文件里的值",
    ),
    "model.family.missing": (
        "these weights are no whole {family}: missing {names}",
        "这些权重不是完整的 {family}：缺少 {names}",
    ),
    "model.family.extra": (
        "these weights are no {family} that qkv knows: there is also {names}",
        "这些权重不是 qkv 认识的 {family}：还多出 {names}",
    ),
    "model.family.place": (
        "a {family} layout has no place for {names}",
        "{family} 的格式放不下 {names}",
    ),
    "model.family.int8": (
        "this model's weights were rounded to 8 bits: export it before quantise()",
        "这个模型的权重已压缩为 8 位：请在 quantise() 之前导出",
    ),
    "model.family.export": (
        "no published layout holds this model. The nearest is {family}, which would need {needs}: train it with these "
        "settings to export it",
        "没有哪种公开的格式放得下这个模型。最接近的是 {family}，它要求 {needs}；用这些设置训练，就能导出",
    ),
    "model.family.tokenizer": (
        "the tokenizer has {tokens} tokens and the model {vocab}: it is another model's",
        "分词器有 {tokens} 个词元，而模型只有 {vocab} 个：它属于别的模型",
    ),
    "model.family.file": (
        "{folder} is a file: name a new folder for the export",
        "{folder} 是一个文件：请为导出指定一个新文件夹",
    ),
    "model.family.taken": (
        "{folder} holds {names}, which no export of qkv wrote: name a new folder, or empty this one",
        "{folder} 里有 {names}，不是 qkv 导出的：请换一个新文件夹，或清空它",
    ),
    "model.file.no_run": (
        "{folder} is no run of qkv and no published model: there is no {file}. Train one with `qkv train`, or see what "
        "can be had with `qkv models`",
        "{folder} 既不是 qkv 的训练结果，也不是公开发布的模型：没有 {file}。可以用 `qkv train` 训练一个，或用 `qkv models` 查看现成的模型",
    ),
    "model.file.config": (
        "{file} says neither 'format', as a run of qkv does, nor 'model_type', as a Hugging Face model does: it is of "
        "something else",
        "{file} 里既没有 qkv 训练结果的 'format'，也没有 Hugging Face 模型的 'model_type'：它不是模型的配置",
    ),
    "model.file.format": (
        "{file} is {format}: this version reads 'qkv run 1'",
        "{file} 的格式是 {format}，而当前版本只读 'qkv run 1'",
    ),
    "model.file.no_checkpoint": (
        "{folder} has no checkpoint yet: go on with `qkv train --resume {folder}`",
        "{folder} 还没有检查点：请用 `qkv train --resume {folder}` 继续训练",
    ),
    "model.file.changed": (
        "{problem}. It is not used: put the file back from a copy, remove {place} so that another checkpoint of the run "
        "is taken, or train on from the newest whole one with `qkv train --resume {folder}`",
        "{problem}。qkv 不会使用它：请用备份恢复这个文件，或删除 {place} 以使用这次训练的另一个检查点，或用 `qkv train --resume {folder}` 从最新的完好检查点接着训练",
    ),
    "model.file.infinite": (
        "{file}: {name} has {count} of its {all} weights that are no numbers (the first is {value}, at {place}), so that "
        "all it says would be nonsense: the file was damaged, or training went wrong before it was saved; get it again, or "
        "take an earlier one",
        "{file}：{name} 的 {all} 个权重里有 {count} 个不是有限的数（第一个是 {value}，位于 {place}），模型的输出会毫无意义：文件已损坏，"
        "或训练在保存之前就出了问题；请重新获取，或换用更早的版本",
    ),
    "model.file.json": ("{file} can't be read: {error}", "{file} 无法读取：{error}"),
    "model.file.unreadable": ("{file} can't be read: {error}", "{file} 无法读取：{error}"),
    "model.file.broken": ("{file} can't be used: {why}", "{file} 无法使用：{why}"),
    "model.file.safetensors": (
        "{file} is not a readable safetensors file: {error}; it was cut short or damaged, get it again",
        "{file} 不是可读的 safetensors 文件：{error}；文件不完整或已损坏，请重新获取",
    ),
    "model.file.other": (
        "{file} is of another config: {name} is {there} there and {here} here",
        "{file} 属于另一种配置：{name} 在文件里是 {there}，这里是 {here}",
    ),
    "model.file.shape": (
        "{file} doesn't fit its own config: {name} is {there}, {here} is expected",
        "{file} 与它自己的配置不符：{name} 是 {there}，应为 {here}",
    ),
    "model.file.misses": (
        "{file} is not whole: the weights of {name} are missing",
        "{file} 不完整：缺少 {name} 的权重",
    ),
    "model.file.says": ("{file}: {problem}", "{file}：{problem}"),
    "model.file.unfit": (
        "{file} describes no model that can be built: {error}",
        "{file} 描述的模型无法建立：{error}",
    ),
    "model.file.absurd": (
        "{file}: {name} is {value}, but its weights allow {most} at most: the config is another model's, or damaged",
        "{file}：{name} 是 {value}，而权重最多只容许 {most}：配置属于别的模型，或已损坏",
    ),
    "model.file.vocab": (
        "{file}: the tokenizer has {tokens} tokens and the model {vocab}: it is another model's",
        "{file}：分词器有 {tokens} 个词元，而模型只有 {vocab} 个：它属于别的模型",
    ),
    "model.file.unnamed": (
        "the name of the model is empty: give a folder, a .gguf file or a name of `qkv models`",
        "模型的名字是空的：请给出文件夹、.gguf 文件，或 `qkv models` 里的名字",
    ),
    "model.file.none": (
        "there is no model {name}: no such folder or .gguf file, and no name of `qkv models` (there are {names}; "
        "hf:owner/name is one of the Hugging Face hub)",
        "没有模型 {name}：既没有这个文件夹或 .gguf 文件，`qkv models` 里也没有这个名字（现有：{names}；Hugging Face hub 上的模型写作 hf:作者/名字）",
    ),
    "model.file.none.near": (
        "there is no model {name}: did you mean {near}? (`qkv models` has {names}; it is no folder or .gguf file either)",
        "没有模型 {name}：是不是想写 {near}？（`qkv models` 里有 {names}；也没有叫这个名字的文件夹或 .gguf 文件）",
    ),
    "model.file.absent": (
        "the model {name} is not here yet: get it with `qkv models get {name}`, or add --yes",
        "本机还没有模型 {name}：请用 `qkv models get {name}` 下载，或加上 --yes",
    ),
    "model.file.lone": (
        "{file} is neither a folder nor a .gguf file: give the folder that it lies in, {folder}, with its config.json "
        "and tokenizer",
        "{file} 既不是文件夹，也不是 .gguf 文件：请给出它所在的文件夹 {folder}，其中应有 config.json 和分词器",
    ),
    "model.file.many": (
        "{folder} has several models: name one of {names} with its folder",
        "{folder} 里有多个模型：请在文件夹后面写明其中一个：{names}",
    ),
    "model.file.unweighted": (
        "{folder} has no weights: there is neither model.safetensors nor model.safetensors.index.json",
        "{folder} 里没有权重：既没有 model.safetensors，也没有 model.safetensors.index.json",
    ),
    "model.file.pickled": (
        "{folder} has its weights as {names} only, a pickled file, which can run any program when it is opened: qkv "
        'never opens one. If you trust where it is from, convert it with transformers:  python -c "from transformers '
        "import AutoModel; AutoModel.from_pretrained('{folder}').save_pretrained('converted')\"  (AutoModelForCausalLM, "
        "AutoModelForMaskedLM or AutoModelForSeq2SeqLM where it has such a head), and copy its tokenizer files there",
        "{folder} 的权重只有 {names}，这是 pickle 文件，打开时可能运行任意程序，qkv 从不打开。如果信任它的来源，请用 transformers 转换："
        "python -c \"from transformers import AutoModel; AutoModel.from_pretrained('{folder}').save_pretrained('converted')\""
        "（带输出头的模型请改用 AutoModelForCausalLM、AutoModelForMaskedLM 或 AutoModelForSeq2SeqLM），再把分词器的文件复制过去",
    ),
    "model.file.shards": (
        "{folder} is not whole: {count} of its weight files are missing ({names}); get them again",
        "{folder} 不完整：缺少 {count} 个权重文件（{names}），请重新获取",
    ),
    "model.file.index.path": (
        "{file} names the weight file {shard}: only .safetensors files beside it are read",
        "{file} 里写的权重文件是 {shard}：只读取与它同一文件夹里的 .safetensors 文件",
    ),
    "model.file.index.tensor": (
        "{file} lacks {name}, which the index says is there ({count} such): the files are of different versions; get "
        "them again",
        "{file} 里没有 {name}，而索引说在这里（共 {count} 个）：这些文件不是同一版本，请重新获取",
    ),
    "model.file.quantised.config": (
        "{file} is quantised ({method}), which qkv does not read: take its unquantised version, or a GGUF",
        "{file} 经过量化（{method}），qkv 读不了：请用未量化的版本，或 GGUF 文件",
    ),
    "model.file.not_gguf": (
        "{file} is no GGUF file: it does not begin with GGUF",
        "{file} 不是 GGUF 文件：开头不是 GGUF",
    ),
    "model.file.gguf_version": (
        "{file} is GGUF of version {version}: qkv reads 2 and 3, little-endian; convert the model again with llama.cpp",
        "{file} 的 GGUF 版本是 {version}：qkv 读取第 2、3 版（小端）；请用 llama.cpp 重新转换这个模型",
    ),
    "model.file.architecture": (
        "{file} is a {name}, which qkv does not know in GGUF: it reads {known}; the nearest is {near}",
        "{file} 的结构是 {name}，qkv 不认识；GGUF 文件可读的结构有 {known}，最接近的是 {near}",
    ),
    "model.file.setting": (
        "{file} says {key} = {value}, with which qkv can't build the model",
        "{file} 里写着 {key} = {value}，qkv 无法据此建立模型",
    ),
    "model.file.setting.unknown": (
        "{file} says {key} = {value}, which qkv doesn't obey: read without it, the model would compute something else",
        "{file} 里写着 {key} = {value}，qkv 不支持这一项：忽略它，模型算出的就不是原来的结果",
    ),
    "model.file.quantised": (
        "{file}: {name} is of type {type}, which can't be turned into floats here: take a file with another quantisation",
        "{file}：{name} 的类型是 {type}，这里无法还原成浮点数：请换用另一种量化方式的文件",
    ),
    "model.file.experts": (
        "{file} is a mixture of {count} experts, which qkv has no layers for",
        "{file} 是 {count} 个专家的混合模型（MoE），qkv 没有这样的层",
    ),
    "model.file.no_ctranslate2": (
        "{folder} has no model.bin with a shared_vocabulary.json beside it",
        "{folder} 里没有 model.bin，或旁边没有 shared_vocabulary.json",
    ),
    "model.file.not_ctranslate2": (
        "{file} is no model of CTranslate2 that qkv reads: it says version {version}, not 2 to 6",
        "{file} 不是 qkv 能读的 CTranslate2 模型：它的版本是 {version}，应为 2 到 6",
    ),
    "model.file.spec": (
        "{file} has the layout {spec}: of CTranslate2's, qkv reads TransformerSpec, as OPUS-MT translators have it",
        "{file} 的结构是 {spec}：CTranslate2 的模型里，qkv 只读 TransformerSpec，即 OPUS-MT 翻译模型的结构",
    ),
    "model.file.not_marian": (
        "{file} is no Marian translator, the only kind that qkv reads from CTranslate2: {name} is {value}, not {wanted}",
        "{file} 不是 Marian 翻译模型，而 qkv 只读 CTranslate2 里的这一种：{name} 是 {value}，应为 {wanted}",
    ),
    "model.file.untied": (
        "{file} keeps {name} apart from the decoder's word vectors: qkv reads translators that share them",
        "{file} 的 {name} 与解码器的词向量不共用：qkv 只读共用词向量的翻译模型",
    ),
    "model.file.sentencepiece": (
        "{folder} has no sentencepiece.model beside model.bin: without it no text becomes tokens",
        "{folder} 里 model.bin 旁边没有 sentencepiece.model：没有它就无法把文本变成词元",
    ),
}
