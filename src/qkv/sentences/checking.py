"""What `qkv check` says around the mistakes themselves (those are in mistakes.py)."""

SENTENCES: dict[str, tuple[str, str]] = {
    "check.right": (
        "{target} is right: {probes} checks found no mistake",
        "{target} 正确：{probes} 项检查都没有发现错误",
    ),
    "check.right.plain": ("{target} is right", "{target} 正确"),
    "check.wrong": ("{target} has a mistake", "{target} 有一处错误"),
    "check.wrong.many": ("{target} has {n} mistakes", "{target} 有 {n} 处错误"),
    "check.suspect": ("{target} probably has a mistake", "{target} 很可能有一处错误"),
    "check.suspect.many": ("{target} probably has {n} mistakes", "{target} 很可能有 {n} 处错误"),
    "check.unknown": ("{target} could not be checked", "{target} 无法检查"),
    "check.partly": (
        "{target} is right as far as checked: {probes} checks found no mistake, but not all could be done",
        "{target} 就已检查的部分而言正确：{probes} 项检查没有发现错误，但有的检查没能做",
    ),
    "check.unseen": ("Not checked", "没有检查"),
    "unseen.cut": (
        "{what}: it is too large for that; make it smaller (--args), or in Python pass operations=…",
        "{what}：它太大，没有做到；请改小（--args），或在 Python 里给 operations=…",
    ),
    "unseen.stopped": ("{what}: stopped with {error}", "{what}：运行时出错，{error}"),
    "unseen.numbers": (
        "the numbers, one by one: they are those of no known form of attention (something else happens to q, k or v)",
        "逐个数字的比较：它们不是任何已知形式的注意力（q、k 或 v 还经过了别的处理）",
    ),
    "unseen.mask": (
        "what the mask {parameter} does: of the masks that were tried none hides what it should, and no known mistake "
        "gives these numbers; say what its True means with --mask-true-means",
        "掩码 {parameter} 的作用：试过的掩码都没有遮住该遮的，也没有已知的错误会得到这些数；"
        "请用 --mask-true-means 说明 True 的含义",
    ),
    "unseen.mask.stopped": (
        "what the mask {parameter} does: every mask that was tried stopped it, first with {error}",
        "掩码 {parameter} 的作用：试过的掩码都让它出错，第一个是{error}",
    ),
    "unseen.memory": (
        "attention to {parameter}: no {parameter} was found that it takes",
        "对 {parameter} 的注意力：没有找到它能接受的 {parameter}",
    ),
    "unseen.memory.part": ("with a memory given: {what}", "给出 memory 时：{what}"),
    "unseen.meaning": (
        "whether a True in {parameter} is meant to keep or to hide: a comment says one thing, the code does the other, and "
        "the file makes no such mask; say it with --mask-true-means",
        "{parameter} 里的 True 是表示保留还是遮住：注释说的与代码做的相反，文件里也没有生成这种掩码的代码；"
        "请用 --mask-true-means 说明",
    ),
    "unseen.cache": (
        "its cache: no way was found to hand it from one call to the next",
        "它的缓存：没有找到把缓存从一次调用交给下一次的办法",
    ),
    # What is looked at, and each probe, as a person calls it.
    "check.look.numbers": ("the numbers, one by one", "逐个数字的比较"),
    "check.look.inputs": ("whether every input counts", "每个输入是否都起作用"),
    "check.look.masks": ("its masks", "它的掩码"),
    "check.look.probes": ("the probes that change one thing at a time", "每次只改一处的各项探测"),
    "check.look.wiring": ("residuals and norms", "残差与归一化的连接"),
    "check.look.cache": ("its cache", "它的缓存"),
    "check.look.memory": ("attention to a memory", "对 memory 的注意力"),
    "check.probe.numbers": ("the numbers, one by one", "逐个数字的比较"),
    "check.probe.cache": ("its cache, one token at a time", "逐个词元使用缓存"),
    "check.probe.cache in pieces": ("its cache, several tokens at a time", "一次几个词元地使用缓存"),
    "check.probe.masks together": ("two masks at once", "同时给两个掩码"),
    "check.probe.repeat": ("the same call twice", "同样的调用做两次"),
    "check.probe.registered": ("whether all its weights are registered", "权重是否都已注册"),
    "check.probe.inputs untouched": ("whether inputs stay as they are", "输入是否保持原样"),
    "check.probe.every input counts": ("whether every input counts", "每个输入是否都起作用"),
    "check.probe.every weight counts": ("whether every weight counts", "每个权重是否都起作用"),
    "check.probe.gradient": ("the gradient", "梯度"),
    "check.probe.who sees whom": ("who sees whom", "谁能看到谁"),
    "check.probe.window": ("the width of the window", "窗口的宽度"),
    "check.probe.batch": ("texts beside each other in a batch", "同一批次里的文本互不影响"),
    "check.probe.order": ("shuffled tokens", "打乱的词元"),
    "check.probe.lengths": ("other lengths", "其他长度"),
    "check.probe.other keys": ("keys of another number than queries", "键与查询的个数不同"),
    "check.probe.large": ("large scores", "很大的分数"),
    "check.probe.growth": ("inputs twice as large", "放大一倍的输入"),
    "check.probe.constant values": ("values that are all alike", "完全相同的值"),
    "check.probe.half": ("half precision", "半精度"),
    "check.probe.training": ("training mode", "训练模式"),
    "check.probe.second call": ("a second call with another width", "换一个宽度再调用"),
    "check.probe.layers of their own": ("whether layers have weights of their own", "各层是否有自己的权重"),
    "check.probe.inventory": ("which projections it has", "有哪些投影"),
    "check.probe.rotary": ("rotary positions", "旋转位置"),
    "check.probe.cost": ("what it costs", "开销"),
    "check.probe.dropout": ("dropout", "随机丢弃（dropout）"),
    "check.suspected": (" (suspected, not proved)", "（疑似，未证实）"),
    "check.does": ("What it does: ", "后果："),
    "check.fix": ("Fix: ", "改法："),
    "check.remarks": ("Remarks, no mistakes", "附注（不是错误）"),
    "check.line": ("line {line}", "第 {line} 行"),
    "check.cell": ("{file} cell {cell}, line {line}", "{file} 第 {cell} 个单元格第 {line} 行"),
    "check.how": ("How it was run: {parts}", "如何运行：{parts}"),
    "check.how.built": ("built as {value}", "构造 {value}"),
    "check.how.called": ("called as {value}", "调用 {value}"),
    "check.how.heads": ("{value} heads", "{value} 个头"),
    "check.how.heads.one": ("one head", "单头"),
    "check.how.mask": ("mask: {value}", "掩码：{value}"),
    "check.how.tried": ("tried {value}", "试过 {value}"),
    "check.how.checked": ("{n} checks", "检查 {n} 项"),
    "check.how.checked.some": ("{n} checks, {skipped} more do not apply", "检查 {n} 项，另有 {skipped} 项不适用"),
    "check.aside": (" ({text})", "（{text}）"),
    "check.semicolon": ("; ", "；"),
    # What keeps a file from being read.
    "check.file": ("there is no file {file}", "没有 {file} 这个文件"),
    "check.file.odd": ("{file} is not a file that can be read", "{file} 不是可以读取的文件"),
    "check.file.large": (
        "{file} is larger than {most} MB: put the attention into a file of its own",
        "{file} 超过 {most} MB：请把注意力的代码单独放进一个文件",
    ),
    "check.file.binary": (
        "{file} is not text: give a .py file or a notebook (.ipynb)",
        "{file} 不是文本：请给 .py 文件或笔记本（.ipynb）",
    ),
    "check.folder": (
        "{file} is a folder: name one of its files, such as {inside}",
        "{file} 是文件夹：请指定其中一个文件，例如 {inside}",
    ),
    "check.folder.empty": (
        "{file} is a folder without a .py file or a notebook: name the file to check",
        "{file} 是文件夹，里面没有 .py 文件或笔记本：请指定要检查的文件",
    ),
    "check.notebook": (
        "{file} is not a notebook: it should be JSON with `cells`; save it again in Jupyter",
        "{file} 不是笔记本：内容应是带 `cells` 的 JSON；请在 Jupyter 里重新保存",
    ),
    "check.syntax": (
        "{file}:{line} is not Python, so nothing in it can be run ({error}):\n  {code}",
        "{file}:{line} 不是合法的 Python，整个文件都无法运行（{error}）：\n  {code}",
    ),
    "check.none": (
        "{file} holds nothing that looks like attention (a softmax beside a product of matrices); "
        "to check a class or function anyway, name it: qkv check {file}:NAME",
        "{file} 里没有看起来像注意力的代码（softmax 加矩阵乘法）；如果仍要检查某个类或函数，请写出名字：qkv check {file}:名字",
    ),
    "check.name": ("{file} has no {name}; it has {there}", "{file} 里没有 {name}，有：{there}"),
    "check.name.near": (
        "{file} has no {name}; did you mean {near}? (it has {there})",
        "{file} 里没有 {name}；是不是想写 {near}？（有：{there}）",
    ),
    "check.name.nothing": (
        "{file} has no {name}, nor any other class or function",
        "{file} 里没有 {name}，也没有任何类或函数",
    ),
    "check.args": (
        "--{option} is {text!r}: write it as name=value pairs, as in --{option} {example}",
        "--{option} 是 {text!r}：请写成 名字=值，例如 --{option} {example}",
    ),
    "check.call": (
        "--call: {word} is none of {roles}; write what it is, then your argument's name, as in --call {example}",
        "--call：{word} 不在这些之中：{roles}；请先写它是什么，再写你的参数名，例如 --call {example}",
    ),
    "check.refused": ("{file} can't be read: {error}", "无法读取 {file}：{error}"),
    "check.names.none": ("name a file, as in  qkv check mymodel.py", "请给一个文件，例如  qkv check mymodel.py"),
    # Why a class or function could not be run.
    "check.outside": (
        "qkv does not run what calls {call}(), which reaches outside the file",
        "qkv 不运行调用 {call}() 的语句，因为它会访问文件以外的东西",
    ),
    "check.load": (
        "{name} could not be loaded ({place}):\n  {code}\n{error}",
        "无法加载 {name}（{place}）：\n  {code}\n{error}",
    ),
    "check.package": (
        "It needs the package {package}, which is not installed here. Install it ({command}) and check again.",
        "它需要 {package} 包，而这里没有安装。安装后（{command}）再检查。",
    ),
    "check.framework": (
        "It is written for {package}; qkv checks PyTorch and NumPy code.",
        "它是用 {package} 写的；qkv 检查 PyTorch 和 NumPy 的代码。",
    ),
    "check.raised": (
        "It stopped with an error ({place}):\n  {code}\n{error}\n{advice}",
        "它出错停止了（{place}）：\n  {code}\n{error}\n{advice}",
    ),
    "check.raised.advice": (
        "If it was built or called in a way you did not mean, say how: "
        '--args "dim=64,heads=8" for the constructor, --call "q=first,k=second" for which argument is which, --heads 8.',
        '如果构造或调用的方式不对，请说明：构造参数用 --args "dim=64,heads=8"，哪个参数是什么用 --call "q=first,k=second"，头数用 --heads 8。',
    ),
    "check.bug": (
        "The check itself failed, which is a mistake of qkv's: {error}",
        "检查程序自身出错，这是 qkv 的问题：{error}",
    ),
    "check.exit": (
        "It ended the program by itself (exit code {code}) while it was {phase}. Take sys.exit and os._exit out of what it runs.",
        "它在{phase}时自己结束了程序（退出码 {code}）。请去掉其中的 sys.exit 和 os._exit。",
    ),
    "check.exit.raised": (
        "It calls sys.exit ({place}):\n  {code}\nTake that out of what it runs, and check again.",
        "它调用了 sys.exit（{place}）：\n  {code}\n请去掉后再检查。",
    ),
    "check.time": (
        "It did not finish within {seconds} s of computing while it was {phase}.{at}\n"
        "If it is only slow, make it smaller (--args) or give it longer: --seconds {more}.",
        "它在{phase}时，计算 {seconds} 秒后仍没有完成。{at}\n如果只是慢，请把它改小（--args）或给更多时间：--seconds {more}。",
    ),
    "check.time.wall": (
        "It did not finish within {seconds} s while it was {phase}, and was waiting for something.{at}\n"
        "If it is only slow, make it smaller (--args) or give it longer: --seconds {more}.",
        "它在{phase}时，{seconds} 秒后仍没有完成，一直在等待。{at}\n如果只是慢，请把它改小（--args）或给更多时间：--seconds {more}。",
    ),
    "check.crash": (
        "It crashed the interpreter ({signal}) while it was {phase}.{at}",
        "它在{phase}时使解释器崩溃（{signal}）。{at}",
    ),
    "check.memory": (
        "It took more than {gigabytes} GB of memory while it was {phase}.{at}\nMake it smaller: --args.",
        "它在{phase}时占用的内存超过 {gigabytes} GB。{at}\n请用 --args 把它改小。",
    ),
    "check.memory.raised": (
        "It asked for more memory than a check may take ({place}):\n  {code}\n{error}\nMake it smaller: --args.",
        "它要的内存超过检查的限度（{place}）：\n  {code}\n{error}\n请用 --args 把它改小。",
    ),
    "check.at": ("\nIt was at {place}:\n  {code}", "\n当时在 {place}：\n  {code}"),
    "check.phase.start": ("starting", "启动"),
    "check.phase.load": ("loading", "加载"),
    "check.phase.check": ("running", "运行"),
    "check.start": (
        "The process that runs your code could not start: {error}",
        "运行你的代码的进程无法启动：{error}",
    ),
    "check.patched.remark": (
        "The file replaces {names}. It ran with its own torch, and was judged with the original numbers.",
        "文件替换了 {names}。运行时用的是它自己的 torch，判断时用的是原来的函数。",
    ),
    "check.silent": (
        "Its process ended without an answer while it was {phase}.",
        "它的进程在{phase}时没有给出结果就结束了。",
    ),
    "check.guessed": (
        "{names}: not known without running the rest of the file, so a small number was taken.",
        "{names}：不运行文件的其余部分就不知道，因此取了一个小的数。",
    ),
    "check.running": ("checking {target}", "正在检查 {target}"),
    "check.assert.partly": (
        "assert_correct: {target} is right as far as checked; not checked: {unseen}",
        "assert_correct：{target} 就已检查的部分而言正确；没有检查：{unseen}",
    ),
    "check.assert.unknown": (
        "assert_correct could not check it: pass what is missing, as in assert_correct(target, heads=8, args={{...}})",
        "assert_correct 无法检查：请补上缺少的信息，例如 assert_correct(target, heads=8, args={{...}})",
    ),
}
