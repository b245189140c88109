"""Mistakes that a training run refuses."""

SENTENCES: dict[str, tuple[str, str]] = {
    # settings
    "train.setting": ("there is no setting {name}. All: {words}", "没有 {name} 这个设置。可以设置：{words}"),
    "train.setting.near": (
        "there is no setting {name}; did you mean '{near}'? All: {words}",
        "没有 {name} 这个设置。是不是想写 {near}？可以设置：{words}",
    ),
    "train.least": ("{name} is {value}: give 1 or more", "{name} 是 {value}：应为 1 或更大的整数"),
    "train.whole": ("{name} is {value}: give a whole number, 0 or more", "{name} 是 {value}：应为 0 或更大的整数"),
    "train.number": ("{name} is {value}: give a number, 0 or more", "{name} 是 {value}：应为 0 或更大的数"),
    "train.flag": ("{name} is {value}: give true or false", "{name} 是 {value}：应为 true 或 false"),
    "train.seed": (
        "seed is {value}: give a whole number from 0 to {last}",
        "种子 seed 是 {value}：应为 0 到 {last} 的整数",
    ),
    "train.decay": (
        "decay is {value}: give the share of the steps that the rate falls over, 0 to 1",
        "decay 是 {value}：应为 0 到 1，即学习率下降的步数所占的比例",
    ),
    "train.mask_share": (
        "mask_share is {value}: give the share of words to hide, above 0 and up to 1",
        "mask_share 是 {value}：应为大于 0、不超过 1 的数，即遮住的词所占的比例",
    ),
    "train.checkpoint_every": (
        "checkpoint_every is {value}: give 1 or more steps",
        "checkpoint_every 是 {value}：应为 1 步或更多",
    ),
    "train.before": (
        "before is {value}: give [[until, steps], …], as config.json keeps the earlier plans of a run that was extended",
        "before 是 {value}：应为 [[到第几步, 原定步数], …]，即 config.json 里延长训练前的各次计划",
    ),
    "train.accumulate": (
        "a batch of {batch} rows doesn't divide into accumulate={accumulate} pieces",
        "每批 {batch} 行，不能平分成 accumulate={accumulate} 份",
    ),
    "train.shares": (
        "a batch of {batch} rows can't be shared evenly by {processes} processes: choose a multiple of {shares}, such as "
        "--batch {near}",
        "每批 {batch} 行，不能平分给 {processes} 个进程：请用 {shares} 的倍数，例如 --batch {near}",
    ),
    "train.shares.accumulate": (
        "a batch of {batch} rows can't be shared evenly by {processes} processes × accumulate={accumulate}: choose a "
        "multiple of {shares}, such as --batch {near}",
        "每批 {batch} 行，不能平分给 {processes} 个进程 × accumulate={accumulate}：请用 {shares} 的倍数，例如 --batch {near}",
    ),
    "train.alone": (
        "--parallel {parallel} shares the work between processes, and this one is alone: start them with "
        "`torchrun --nproc-per-node 2 -m qkv train … --parallel {parallel}`, or leave --parallel out",
        "--parallel {parallel} 让几个进程分担工作，而现在只有一个进程：请用 "
        "`torchrun --nproc-per-node 2 -m qkv train … --parallel {parallel}` 启动，或去掉 --parallel",
    ),
    "train.compiler": (
        "compile is true, and there is no C++ compiler here: install g++ or clang++ (CXX names another), or leave "
        "compile=false, which trains the same",
        "compile 是 true，但这里没有 C++ 编译器：请安装 g++ 或 clang++（也可以用 CXX 指定），或者用 compile=false，训练结果相同",
    ),
    "train.bfloat16": (
        "bfloat16 does not work on this machine (a trial of it crashed): leave dtype=float32, or set the environment "
        "variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 before starting",
        "这台机器不能用 bfloat16（试算时崩溃了）：请用 dtype=float32，或在启动前设置环境变量 "
        "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16",
    ),
    # what is learned from
    "train.task": ("there is no task {task!r}: choose from {tasks}", "没有 {task} 这个任务：可选 {tasks}"),
    "train.kind": (
        "kind is {kind}: {task} trains a model of kind {needed}; leave kind out, or choose another task",
        "kind 是 {kind}：{task} 训练的是 {needed} 类的模型；请去掉 kind，或换一个任务",
    ),
    "train.head": (
        "head='none' gives states, not words, and {task} learns by the words it says: leave it out",
        "head='none' 只输出隐状态，不输出词，而 {task} 靠输出的词来学习：请去掉这个设置",
    ),
    "train.text": (
        "training {task} needs a text: --text FILE, folder, glob, or a data set (see `qkv data`)",
        "训练 {task} 需要文本：--text 文件、文件夹、通配符，或数据集（见 `qkv data`）",
    ),
    "train.useless.text": (
        "--text is {value}, but {task} learns from sentence pairs: give --pairs TSV, or nothing for dates",
        "--text 是 {value}，但 {task} 用的是句对：请用 --pairs TSV，或什么都不给（学习日期）",
    ),
    "train.useless.pairs": (
        "--pairs is {value}, but {task} learns from a text: give --text instead",
        "--pairs 是 {value}，但 {task} 用的是文本：请改用 --text",
    ),
    "train.useless.tokenizer": (
        "--tokenizer is {value}, but dates are always cut into characters: leave it out, or give --pairs",
        "--tokenizer 是 {value}，但日期总是按字符切分：请去掉它，或给出 --pairs",
    ),
    "train.useless.vocab": (
        "vocab is {value}, but a model has as many tokens as its tokenizer: leave it out",
        "vocab 是 {value}，但模型的词表由分词器决定：请去掉它",
    ),
    "train.pairs": (
        "{pairs} has {n} pair: give at least two, one to learn from and one to test with",
        "{pairs} 只有 {n} 对：至少要有两对，一对用来训练，一对用来验证",
    ),
    "train.pairs.long": (
        "a sentence of the pairs has {n} tokens but this model learns {context} positions: set --context {n}, or leave "
        "long sentences out, or --set position=rotary, which has no limit",
        "句对里有 {n} 个词元的句子，而这个模型只学 {context} 个位置：请设 --context {n}，或去掉过长的句子，"
        "或用没有上限的 --set position=rotary",
    ),
    "train.data.absent": (
        "the data set {name} is not here yet: get it with `qkv data get {name}`, or add --yes",
        "数据集 {name} 还没有下载：请运行 `qkv data get {name}`，或加上 --yes",
    ),
    "train.mask": (
        "the tokenizer has no [MASK] token: make it with special=('pad', 'mask', …)",
        "分词器没有 [MASK] 词元：请用 special=('pad', 'mask', …) 生成",
    ),
    "train.watch": (
        "--watch needs a sentence with at least one token",
        "--watch 后面要有一句话，至少一个词元",
    ),
    "train.watch.long": (
        "the sentence of --watch has {n} tokens but this model learns {context} positions: shorten it, or set --context",
        "--watch 的句子有 {n} 个词元，而这个模型只学 {context} 个位置：请缩短句子，或设置 --context",
    ),
    # the run's folder
    "train.exists": (
        "{folder} holds a run already: go on with `qkv train --resume {folder}`, or choose another --out",
        "{folder} 里已有一次训练：请用 `qkv train --resume {folder}` 接着训练，或换一个 --out",
    ),
    "train.changed": (
        "{source} is not the text that {folder} was begun with (its content changed): a run goes on with its own data; "
        "leave {option} out, or begin a new run",
        "{source} 不是 {folder} 开始时用的文本（内容变了）：一次训练只能用原来的数据继续；请去掉 {option}，或重新开始一次训练",
    ),
    "train.fixed": (
        "{name} is {has} in {folder} and can't become {asked} while the run goes on: leave it out, or begin a new run. What "
        "can change: --steps, --eval-every, --checkpoint-every",
        "{folder} 的 {name} 是 {has}，接着训练时不能改成 {asked}：请去掉这一项，或重新开始一次训练。可以改的有："
        "--steps、--eval-every、--checkpoint-every",
    ),
    "train.steps.done": (
        "{folder} has done {done} steps already, and {asked} were asked for: give --steps {done} or more, or leave it out",
        "{folder} 已经训练了 {done} 步，而要求的是 {asked} 步：--steps 至少是 {done}，或去掉它",
    ),
    "train.record": (
        "{file} has no {key}: it was changed or cut short, so the run can't go on",
        "{file} 里没有 {key}：文件被改动过或不完整，无法接着训练",
    ),
    "train.lost": (
        "the loss became {loss} at step {step}, in the batch of seed {seed} and step {batch}; the last good checkpoint "
        "is {kept}. Try a smaller --lr, or look for broken text in the data",
        "第 {step} 步的损失变成了 {loss}（种子 {seed}、第 {batch} 步的批次）；最后一个完好的检查点是 {kept}。"
        "请试试更小的 --lr，或检查数据里有没有损坏的文本",
    ),
    "train.lost.first": (
        "the loss became {loss} at step {step}, in the batch of seed {seed} and step {batch}; there is no checkpoint yet. "
        "Try a smaller --lr, or look for broken text in the data",
        "第 {step} 步的损失变成了 {loss}（种子 {seed}、第 {batch} 步的批次）；还没有检查点。"
        "请试试更小的 --lr，或检查数据里有没有损坏的文本",
    ),
    # checkpoints
    "train.disk": (
        "the disk is full: checkpoint {step} was not written, the last good checkpoint is {kept}; free some space and "
        "resume",
        "磁盘已满：第 {step} 步的检查点没有写入，最后一个完好的检查点是 {kept}；请腾出空间后接着训练",
    ),
    "train.disk.first": (
        "the disk is full: checkpoint {step} was not written, no checkpoint could be written yet; free some space and "
        "resume",
        "磁盘已满：第 {step} 步的检查点没有写入，此前也没有检查点；请腾出空间后接着训练",
    ),
    "train.checkpoint.format": (
        "{place} is {found!r}, this version reads {known!r}",
        "{place} 的格式是 {found}，这个版本只能读 {known}",
    ),
    "train.checkpoint.short": (
        "{file} has {found} bytes, {known} were written: it was cut short",
        "{file} 有 {found} 字节，而写入了 {known} 字节：文件不完整",
    ),
    "train.checkpoint.changed": (
        "{file} is not what was written: its content changed",
        "{file} 与写入时不同：内容变了",
    ),
    "train.damaged": (
        "{folder} has {n} checkpoints and none is whole, so there is nothing to go on from: {problem}. Nothing was "
        "changed. To train it anew from step 0, move {folder}/checkpoints away and say  qkv train --resume {folder}",
        "{folder} 有 {n} 个检查点，但没有一个完整，无法接着训练：{problem}。没有改动任何文件。"
        "要从第 0 步重新训练，请移走 {folder}/checkpoints，再运行  qkv train --resume {folder}",
    ),
    "train.checkpoint.missing": (
        "{file} is missing, or is no regular file: the checkpoint is not whole",
        "{file} 不存在，或不是普通文件：检查点不完整",
    ),
    "train.checkpoint.unreadable": ("{place} can't be read: {error}", "{place} 无法读取（{error}）"),
    "train.checkpoint.config": ("{place} is of another config: {error}", "{place} 属于另一种配置（{error}）"),
    "train.checkpoint.optimizer": (
        "{place} was written with another optimizer: put the one back that config.json had, or begin a new run",
        "{place} 是用另一种优化器保存的：请把 config.json 里的优化器改回来，或重新开始一次训练",
    ),
}
