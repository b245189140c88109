"""What `qkv learn` says; the hints of each exercise are beside it, in lessons/graders/."""

SENTENCES: dict[str, tuple[str, str]] = {
    "learn.head": (
        "Exercise {number} of {last}: {title}. Uses {library}.\nRead, fill in, then:  qkv learn check {number}",
        "练习 {number}/{last}“{title}”，使用 {library}。\n读一读，填好空缺，然后运行：qkv learn check {number}",
    ),
    "learn.head.solved": (
        "Exercise {number} of {last}: {title}. Uses {library}. This is a solution.",
        "练习 {number}/{last}“{title}”，使用 {library}。这是一份解答。",
    ),
    "learn.hole": ("your code", "在这里写你的代码"),
    "learn.hole.numbers": ("your numbers", "填上你的数"),
    "learn.number": (
        "there is no exercise {number}: they go from 1 to {last}",
        "没有练习 {number}：编号从 1 到 {last}",
    ),
    "learn.name": (
        "{word} is no exercise; there are {names}",
        "没有 {word} 这个练习，只有：{names}",
    ),
    "learn.name.near": (
        "{word} is no exercise; did you mean {near}? There are {names}",
        "没有 {word} 这个练习，是不是想写 {near}？全部练习：{names}",
    ),
    "learn.title": (
        "From q·k to a GPT that trains: {solved} of {last} solved, in {folder}",
        "从 q·k 到能训练的 GPT：已完成 {solved}/{last}，文件夹 {folder}",
    ),
    "learn.line": ("{number}  {title}  ({library})", "{number}  {title}（{library}）"),
    "learn.copied": (
        "Exercise {number}, {title}, is in {file}",
        "练习 {number}“{title}”在 {file}",
    ),
    "learn.next": (
        "Open {file} in an editor, fill it in, then\n  qkv learn check{more}      grade it\n  qkv learn watch{more}      grade it on every save\n"
        "  qkv learn hint{more}       a hint, stronger each time",
        "用编辑器打开 {file}，填好空缺，然后\n  qkv learn check{more}      评分\n  qkv learn watch{more}      每次保存自动评分\n"
        "  qkv learn hint{more}       提示，一次比一次明确",
    ),
    "learn.done": (
        "All {last} are solved. What you wrote is what models compute: qkv see, qkv train lm.",
        "{last} 个练习全部完成。你写的就是模型所算的：qkv see、qkv train lm。",
    ),
    "learn.damaged": (
        "{file} could not be read and was put aside as {aside}; your exercises are untouched. To count again: qkv learn check all",
        "{file} 无法读取，已改名为 {aside}；你的练习文件没有动。重新统计：qkv learn check all",
    ),
    "learn.file.none": (
        "{file} isn't there: qkv learn {number} puts it there",
        "没有 {file}：运行 qkv learn {number} 就会生成",
    ),
    "learn.file.text": ("{file} is not a text file", "{file} 不是文本文件"),
    "learn.many": ("{what} takes one exercise, not {n}", "{what} 后面只能有一个练习，不能是 {n} 个"),
    "learn.all.solved": (
        "all exercises are solved; say which one, as in  qkv learn {what} 3",
        "所有练习都已完成，请说明是哪一个，例如  qkv learn {what} 3",
    ),
    "learn.verdict.right": ("✓ {number} {title}: right", "✓ {number} {title}：正确"),
    "learn.verdict.wrong": (
        "✗ {number} {title}: not yet ({passed} of {total} questions right)",
        "✗ {number} {title}：还不对（{total} 个问题对了 {passed} 个）",
    ),
    "learn.verdict.unknown": ("? {number} {title}: could not be graded", "? {number} {title}：无法评分"),
    "learn.right": (
        "All {n} questions; the largest difference from the reference is {worst}.",
        "{n} 个问题全对；与参考结果的最大差别是 {worst}。",
    ),
    "learn.go.on": ("Next: exercise {number}, {title}:  qkv learn", "下一个：练习 {number}，{title}：  qkv learn"),
    "learn.more": ("More help: qkv learn hint{more}", "还想要提示：qkv learn hint{more}"),
    "learn.asked": ("Asked: {call}", "问题：{call}"),
    "learn.hole.left": (
        "line {line}: the hole is still there. Put your code (or your numbers) in its place, for {name}.",
        "第 {line} 行：空缺还没有填。请在这里写上 {name} 的代码（或数）。",
    ),
    "learn.none": (
        "{call} gave None. The function (line {line}) computes something, perhaps, but doesn't return it.",
        "{call} 得到 None。函数（第 {line} 行）也许算了什么，但没有 return。",
    ),
    "learn.type": (
        "it gave a {kind} that isn't a table of numbers: return one array (or tensor).",
        "返回的是 {kind}，不是数的表：请返回一个数组（或张量）。",
    ),
    "learn.pair": ("it has to return two things: {what}.", "要返回两样东西：{what}。"),
    "learn.gpt.high": (
        "after {steps} steps the loss is {last} (it began at {first}); it should be below {bar}.",
        "训练 {steps} 步后损失是 {last}（开始时 {first}），应低于 {bar}。",
    ),
    "learn.gpt.leak": (
        "later characters change what the model says earlier (by {moved}): the future leaks.",
        "后面的字符改变了模型在前面给出的结果（相差 {moved}）：后文泄漏了。",
    ),
    "learn.gpt.learned": (
        "It learns: loss {first} → {last} in {steps} steps, {seconds} s; nothing leaks from the future. It writes: {says}",
        "它学会了：{steps} 步，{seconds} 秒，损失 {first} → {last}；后文没有泄漏。它写道：{says}",
    ),
    "learn.changed": (
        "your function wrote into {name}, which belongs to its caller: the next one who uses it gets other numbers. Make a new array "
        "(x = x - …, not x -= …).",
        "你的函数改写了传进来的 {name}：后面再用它的人会得到别的数。请生成新的数组（x = x - …，不要 x -= …）。",
    ),
    "learn.shape": ("your result has the shape {got}; {want} is right.", "你的结果形状是 {got}，应为 {want}。"),
    "learn.shape.turned": ("The sizes are right, their order isn't.", "各维大小是对的，顺序不对。"),
    "learn.nan": (
        "at {at} you have {value}; {want} is right.",
        "在 {at} 处你得到 {value}，应为 {want}。",
    ),
    "learn.differs": (
        "at {at} you have {got}; {want} is right. {n} of {total} numbers differ.",
        "在 {at} 处你得到 {got}，应为 {want}。{total} 个数里有 {n} 个不同。",
    ),
    "learn.differs.one": ("you have {got}; {want} is right.", "你得到 {got}，应为 {want}。"),
    "learn.ratio": ("All your numbers are the right ones times {ratio}.", "你所有的数都是正确结果的 {ratio} 倍。"),
    "learn.turned": ("Your table is the right one transposed.", "你的表是正确结果的转置。"),
    "learn.doctor": ("qkv check finds: {name}. {evidence}", "qkv check 发现：{name}。{evidence}"),
    "learn.syntax": (
        "line {line} is no Python yet ({error}):\n    {shown}",
        "第 {line} 行还不是合法的 Python（{error}）：\n    {shown}",
    ),
    "learn.missing": (
        "there is no {name} in the file any more. Keep the names; qkv learn reset {lesson} brings the exercise back (and keeps your file).",
        "文件里没有 {name} 了。请保留原来的名字；qkv learn reset {lesson} 可以恢复练习（你的文件会留底）。",
    ),
    "learn.stopped": (
        "line {line} stopped with {error}:\n    {shown}",
        "第 {line} 行出错，{error}：\n    {shown}",
    ),
    "learn.stopped.nowhere": ("it stopped with {error}", "出错：{error}"),
    "learn.stopped.load": (
        "the file could not be run: line {line} stopped with {error}:\n    {shown}",
        "文件无法运行：第 {line} 行出错，{error}：\n    {shown}",
    ),
    "learn.stopped.load.nowhere": ("the file could not be run: {error}", "文件无法运行：{error}"),
    "learn.exit": (
        "line {line} ends the program (sys.exit). Return the result instead:\n    {shown}",
        "第 {line} 行结束了程序（sys.exit）。应改为返回结果：\n    {shown}",
    ),
    "learn.exit.nowhere": ("the program ended itself (sys.exit)", "程序自己结束了（sys.exit）"),
    "learn.memory": (
        "line {line} asked for more memory than the 2 GB there are for an exercise:\n    {shown}",
        "第 {line} 行要的内存超过了练习允许的 2 GB：\n    {shown}",
    ),
    "learn.memory.nowhere": (
        "it asked for more memory than the 2 GB there are for an exercise",
        "要的内存超过了练习允许的 2 GB",
    ),
    "learn.recursion": (
        "line {line} calls itself without end:\n    {shown}",
        "第 {line} 行无休止地调用自己：\n    {shown}",
    ),
    "learn.recursion.nowhere": ("a function calls itself without end", "有函数无休止地调用自己"),
    "learn.slow": (
        "your code was still at line {line} when the time was up. A loop without end?\n    {shown}",
        "时间到了，你的代码还停在第 {line} 行。是不是死循环？\n    {shown}",
    ),
    "learn.slow.nowhere": (
        "your code wasn't done when the time was up. A loop without end?",
        "时间到了，你的代码还没有算完。是不是死循环？",
    ),
    "learn.died": (
        "the process that ran your code ended without an answer (exit code {code})",
        "运行你代码的进程没有给出结果就结束了（退出码 {code}）",
    ),
    "learn.printed": ("Your code printed:\n{text}", "你的代码打印了：\n{text}"),
    "learn.printed.much": (
        "(your code printed {lines} lines; not shown)",
        "（你的代码打印了 {lines} 行，这里不显示）",
    ),
    "learn.hint": ("Hint {n} of {last}, exercise {number}: {hint}", "练习 {number} 提示 {n}/{last}：{hint}"),
    "learn.hint.none": (
        "Those were all the hints for exercise {number}. Grading says more about your own answer (qkv learn check {number}); "
        "the last resort is  qkv learn solution {number}",
        "练习 {number} 的提示都给完了。评分会针对你的答案说得更多（qkv learn check {number}）；最后的办法是  qkv learn solution {number}",
    ),
    "learn.solution": ("A solution, also in {file}", "一份解答，也在 {file} 里"),
    "learn.reset.ask": (
        "{file} goes back to how it was at first; yours is kept under {backups}. Go on? [y/N] ",
        "{file} 将恢复成最初的样子；你的文件保留在 {backups}。继续吗？[y/N] ",
    ),
    "learn.reset.yes": (
        "nobody is there to ask: add --yes to reset {file}",
        "没有人可以问：要重置 {file}，请加 --yes",
    ),
    "learn.reset.kept": ("{file} is as it was at first; yours is in {kept}", "{file} 已恢复；你原来的文件在 {kept}"),
    "learn.reset.fresh": ("{file} is as it was at first", "{file} 已是最初的样子"),
    "learn.reset.no": ("left as it is", "没有改动"),
    "learn.watching": (
        "watching {file}: graded on every save; Ctrl-C ends it",
        "正在监视 {file}：每次保存都会评分；按 Ctrl-C 结束",
    ),
    "learn.watched": ("no longer watching", "已停止监视"),
}
