"""Mistakes that attention and masks refuse, and any word that is not among the right ones."""

SENTENCES: dict[str, tuple[str, str]] = {
    "choice": ("{what} {word} is not one of {words}", "{what} 不能是 {word}：可选 {words}"),
    "choice.near": (
        "{what} {word} is not one of {words}; did you mean '{near}'?",
        "{what} 不能是 {word}：可选 {words}。是不是想写 {near}？",
    ),
    "attention.scaling.kind": (
        "rotary scaling {kind} is not one of {known}",
        "旋转位置的缩放方式 {kind} 不在可用的之中：{known}",
    ),
    "attention.scaling.needs": ("rotary scaling {kind!r} needs {names}", "旋转位置的缩放方式 {kind!r} 缺少 {names}"),
    "attention.scaling.more": (
        "rotary scaling {kind!r} has no {names}; it takes {known}",
        "旋转位置的缩放方式 {kind!r} 没有 {names}，可以给的有：{known}",
    ),
    "attention.scaling.number": (
        "rotary scaling {kind!r} has {name} = {value}: give a number above 0",
        "旋转位置的缩放方式 {kind!r} 的 {name} 是 {value}：应为大于 0 的数",
    ),
    "attention.scaling.factor": (
        "rotary scaling {kind!r} has factor = {value}: give 1 or more",
        "旋转位置的缩放方式 {kind!r} 的 factor 是 {value}：应不小于 1",
    ),
    "attention.scaling.order": (
        "rotary scaling {kind!r} has {low} = {a} and {high} = {b}: {low} must be below {high}",
        "旋转位置的缩放方式 {kind!r} 的 {low} 是 {a}，{high} 是 {b}：{low} 应小于 {high}",
    ),
    "attention.rotary": (
        "rotary turns pairs: {width} × {fraction} is {turned} numbers; it must be even, 2 or more",
        "旋转位置编码（rotary）成对旋转：{width} × {fraction} 是 {turned} 个数；应为偶数，至少是 2",
    ),
    "attention.finite": (
        "{what} holds {value} at {place} of {shape}: attention needs finite numbers",
        "{what}（形状 {shape}）在 {place} 处是 {value}：注意力只能计算有限的数",
    ),
}
