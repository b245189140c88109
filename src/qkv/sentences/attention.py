"""Mistakes that attention and masks refuse, and any word that is not among the right ones."""

SENTENCES: dict[str, tuple[str, str]] = {
    "choice": ("{what} {word} is not one of {words}", "{what} 不能是 {word}：可选 {words}"),
    "choice.near": (
        "{what} {word} is not one of {words}; did you mean '{near}'?",
        "{what} 不能是 {word}：可选 {words}。是不是想写 {near}？",
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
