"""Mistakes that named data sets and models refuse."""

SENTENCES: dict[str, tuple[str, str]] = {
    "store.name": (
        "there is no data set or model named {name}: there are {names}",
        "没有名为 {name} 的数据集或模型：现有 {names}",
    ),
    "store.name.near": (
        "there is no data set or model named {name}: did you mean {near}?",
        "没有名为 {name} 的数据集或模型：是不是 {near}？",
    ),
    "store.changed": (
        "{file} is no longer what was fetched, somebody or something changed it: it is not used; get it again with `qkv "
        "{verb} get {name}`",
        "{file} 已不是下载时的内容，被改动过：不会使用它；请用 `qkv {verb} get {name}` 重新下载",
    ),
    "store.verified": (
        "{name}: {n} files, {size} MB, each is what was fetched (sha256)",
        "{name}：{n} 个文件，{size} MB，每个都与下载时一致（sha256）",
    ),
    "store.verified.none": (
        "no model is here to verify: see what can be had with `qkv models`",
        "本机没有可以校验的模型：可用 `qkv models` 查看能下载哪些",
    ),
    "store.hash": (
        "{what} is not what it should be (sha256 {found}…, expected {expected}…): it was not used and is kept at {kept} "
        "to look at; try again, and if it stays so, its publisher or the way to it has changed it",
        "{what} 与预期不符（sha256 是 {found}…，应为 {expected}…）：没有使用，留在 {kept} 以备查看；请重试，"
        "如果仍然如此，就是发布者或下载途中改动了它",
    ),
    "store.member": (
        "{archive} has no file {name}: it is not the package that was expected",
        "{archive} 里没有文件 {name}：这不是预期的安装包",
    ),
    "store.archive": (
        "{archive} can't be opened ({why}): it is not the package that was expected",
        "{archive} 打不开（{why}）：这不是预期的安装包",
    ),
    "store.fetch.pip": (
        "{what} could not be fetched: this Python has no pip; install it with  {python} -m ensurepip",
        "无法下载 {what}：这个 Python 没有 pip；请先安装：{python} -m ensurepip",
    ),
    "store.fetch.hash": (
        "{what} could not be fetched: the registry offers something else under this name (wrong hash), which was not "
        "used",
        "无法下载 {what}：软件源里同名的是别的东西（哈希不符），没有使用",
    ),
    "store.fetch.busy": (
        "{what} could not be fetched: the registry asks for fewer requests; try again in some minutes",
        "无法下载 {what}：软件源请求过多；请过几分钟再试",
    ),
    "store.fetch.offline": (
        "{what} could not be fetched: the package registry cannot be reached; go online and try again, or use a file of "
        "your own",
        "无法下载 {what}：连不上软件源；请联网后再试，或者用自己的文件",
    ),
    "store.fetch.gone": (
        "{what} could not be fetched: the package registry does not have it (any more); use a file of your own",
        "无法下载 {what}：软件源里没有它，或者已经下架；请用自己的文件",
    ),
    "store.fetch.other": ("{what} could not be fetched: pip says «{said}»", "无法下载 {what}：pip 说“{said}”"),
    "store.hub.name": (
        "{name} names no repository of the hub: write hf:owner/name, hf:owner/name@revision, or, for one file of several, "
        "hf:owner/name/FILE.gguf",
        "{name} 不是 hub 上的仓库名：请写 hf:owner/name、hf:owner/name@版本，或者在多个文件中选一个：hf:owner/name/文件.gguf",
    ),
    "store.hub.library": (
        "{name} comes from the Hugging Face hub, which needs its library: {command}",
        "{name} 来自 Hugging Face hub，需要它的库：{command}",
    ),
    "store.hub.offline": (
        "{name} is not in the cache and the hub cannot be reached ({why}): go online and run  qkv models get {name}  "
        "again, or give the folder of a copy you have",
        "缓存里没有 {name}，也连不上 hub（{why}）：请联网后再运行  qkv models get {name}，或者直接给出已有副本的文件夹",
    ),
    "store.hub.absent": (
        "the hub has no {name}, or shows it only to those who may see it: check the name; for a private model log in "
        "with  hf auth login",
        "hub 上没有 {name}，或者只有获准的人才能看到：请检查名字；如果是私有模型，请先用  hf auth login  登录",
    ),
    "store.hub.gated": (
        "the hub gives {name} only to those who accepted its licence: accept it on the model's page, log in with  "
        "hf auth login , then run  qkv models get {name}  again",
        "hub 只把 {name} 提供给接受了许可的人：请先在模型页面上接受许可，用  hf auth login  登录，再运行  qkv models get {name}",
    ),
    "store.hub.revision": (
        "the hub has no revision {revision} of {name}: leave out what follows @ for the newest",
        "hub 上的 {name} 没有版本 {revision}：去掉 @ 及其后面的部分就是最新版",
    ),
    "store.hub.token": (
        "the hub refused to give {name} ({why}): log in anew with  hf auth login",
        "hub 拒绝提供 {name}（{why}）：请用  hf auth login  重新登录",
    ),
    "store.hub.busy": (
        "the hub can't give {name} just now ({why}): try again in some minutes",
        "hub 暂时无法提供 {name}（{why}）：请过几分钟再试",
    ),
    "store.hub.broke": (
        "the connection broke while {name} was being fetched ({why}): what had arrived was thrown away; run  "
        "qkv models get {name}  again",
        "下载 {name} 时连接中断（{why}）：已收到的部分没有保留；请重新运行  qkv models get {name}",
    ),
    "store.hub.other": ("{name} could not be fetched from the hub: {why}", "无法从 hub 下载 {name}：{why}"),
    "store.hub.cut": (
        "{file} of {name} did not arrive whole and was not used: try again",
        "{name} 的 {file} 没有下载完整，没有使用：请重试",
    ),
    "store.hub.hash": (
        "{file} of {name} is not what the hub says it is (sha256 {found}…, expected {expected}…): it was not used; try "
        "again",
        "{name} 的 {file} 与 hub 所说的不符（sha256 是 {found}…，应为 {expected}…）：没有使用；请重试",
    ),
    "store.hub.pickled": (
        "{name} has no safetensors or GGUF weights, only {found}: pickled files can run any program when they are "
        "opened, so qkv does not fetch them. Convert them once where you trust them: load with transformers, then "
        "save_pretrained(folder)",
        "{name} 没有 safetensors 或 GGUF 权重，只有 {found}：pickle 文件打开时可以运行任意程序，所以 qkv 不下载。"
        "请在可信的环境中转换一次：用 transformers 读入，再 save_pretrained(文件夹)",
    ),
    "store.hub.others": (
        "{name} has {found}, but no weights under the names that are read ({wanted}): it is perhaps an adapter for "
        "another model, or for another program",
        "{name} 里有 {found}，但没有可读取的文件名（{wanted}）：它也许是给别的模型用的适配器，或供别的程序使用",
    ),
    "store.hub.weights": (
        "{name} has no weights that qkv reads (safetensors or GGUF): it is perhaps a data set, or for another program",
        "{name} 没有 qkv 能读的权重（safetensors 或 GGUF）：它也许是数据集，或供别的程序使用",
    ),
    "store.hub.several": (
        "{name} has several GGUF files, say which: {files}",
        "{name} 有多个 GGUF 文件，请选一个：{files}",
    ),
    "store.hub.file": ("{name} has no file {file}: it has {files}", "{name} 里没有文件 {file}：有 {files}"),
}
