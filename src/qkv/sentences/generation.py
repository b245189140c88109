"""Mistakes that going on with a text, translating and filling in refuse."""

SENTENCES: dict[str, tuple[str, str]] = {
    "generation.temperature": (
        "temperature is {value}: give 0 (the likeliest token) or more; 1 is as learned",
        "temperature 是 {value}：应为 0（每次取最可能的词元）或更大的数；1 表示不调整",
    ),
    "generation.top_k": (
        "top_k is {value}: give how many tokens may be drawn, 1 or more, or None for all",
        "top_k 是 {value}：应为 1 或更大的整数，即在几个词元里选；不设则不限",
    ),
    "generation.top_p": (
        "top_p is {value}: give a probability above 0 and up to 1, or None for all",
        "top_p 是 {value}：应为大于 0、不超过 1 的概率；不设则不限",
    ),
    "generation.repetition": (
        "repetition_penalty is {value}: give 1 for none, above 1 for fewer repeats",
        "repetition_penalty 是 {value}：1 表示不限制，大于 1 时减少重复",
    ),
    "generation.most": (
        "most is {value}: give how many new tokens may come, 1 or more",
        "most 是 {value}：应为 1 或更大的整数，即最多新增多少词元",
    ),
    "generation.seed": (
        "seed is {value}: give a whole number of at most 64 bits",
        "种子 seed 是 {value}：应为不超过 64 位的整数",
    ),
    "generation.beam": (
        "width is {width} and best is {best}: give a width of 1 or more and ask for 1 to width texts",
        "束宽 width 是 {width}，best 是 {best}：束宽应为 1 或更大的整数，best 应在 1 和束宽之间",
    ),
    "generation.stop": (
        "a stop text is empty: every text would end before it began; leave it out",
        "停止文字是空的：这样任何文本还没开始就结束了；请去掉它",
    ),
    "generation.empty": (
        "the text is empty and the tokenizer has no token to begin with: give at least one character",
        "文本是空的，分词器也没有表示开头的词元：请至少给一个字符",
    ),
    "generation.row.empty": (
        "{what} {number} is empty: give at least one token, such as the tokenizer's bos",
        "第 {number} 个{what}是空的（从 0 开始编号）：请至少给一个词元，例如分词器的 bos",
    ),
    "generation.row.token": (
        "{what} {number} holds token {token}: this model knows 0 to {last}",
        "第 {number} 个{what}（从 0 开始编号）里有编号为 {token} 的词元：这个模型只认识 0 到 {last}",
    ),
    "generation.full": (
        "the prompt has {longest} tokens and fills the context of {context}: shorten it",
        "提示有 {longest} 个词元，已占满 {context} 个词元的上下文：请缩短提示",
    ),
    "generation.long": (
        "the {what} has {longest} tokens, but this model learned {context} positions: shorten the {what}",
        "{what}有 {longest} 个词元，而这个模型只学过 {context} 个位置：请缩短{what}",
    ),
    "generation.long.most": (
        "the {what} has {longest} tokens and {most} more were asked for, but this model learned {context} positions: "
        "shorten the {what}",
        "{what}有 {longest} 个词元，还要新增 {most} 个，而这个模型只学过 {context} 个位置：请缩短{what}",
    ),
    "generation.long.room": (
        "the {what} has {longest} tokens and {most} more were asked for, but this model learned {context} positions: "
        "shorten the {what} or ask for {room} at most",
        "{what}有 {longest} 个词元，还要新增 {most} 个，而这个模型只学过 {context} 个位置：请缩短{what}，或最多新增 {room} 个",
    ),
    "generation.beyond": (
        "the text grew beyond the model's context of {context} tokens: what follows from there may make no sense",
        "文本超出了模型 {context} 个词元的上下文：其后的内容可能没有意义",
    ),
    "generation.encoder": (
        "this model is an encoder, which reads but doesn't go on: use fill for its [MASK] tokens",
        "这个模型是编码器，只能阅读，不能续写：请用 fill 猜它的 [MASK]",
    ),
    "generation.source.none": (
        "this model is an encoder-decoder: give source=, the tokens it should read first",
        "这个模型是编码器-解码器：请给出 source=，即它要先读的词元",
    ),
    "generation.source.extra": (
        "this model is a decoder and reads no source: put that text into the prompt",
        "这个模型是解码器，不读源文本：请把那段文本放进提示",
    ),
    "generation.source.eos": (
        "the tokenizer has no eos token, which ends a source text: was it made for translation?",
        "分词器没有表示结束的词元 eos，源文本要用它结尾：它是为翻译准备的吗？",
    ),
    "generation.target.ends": (
        "the tokenizer has no bos or no eos token, which a translation begins and ends with",
        "分词器缺少 bos 或 eos 词元，译文要用它们开头和结尾",
    ),
    "generation.fill.kind": (
        "this model doesn't fill in words: it needs an encoder trained on hidden words (qkv train mlm)",
        "这个模型不会填词：需要用 qkv train mlm 训练的编码器",
    ),
    "generation.fill.mask": (
        "the tokenizer has no mask token: was this model trained on hidden words (qkv train mlm)?",
        "分词器没有遮盖用的词元：这个模型是用 qkv train mlm 训练的吗？",
    ),
    "generation.fill.none": (
        "the text has no {name}: write it where a word is to be guessed, as in 'the {name} sat'",
        "文本里没有 {name}：请在要猜的地方写上它，例如“我{name}北京”",
    ),
    "generation.fill.long": (
        "the text has {longest} tokens but this model learned {context} positions: shorten it",
        "文本有 {longest} 个词元，而这个模型只学过 {context} 个位置：请缩短文本",
    ),
    "generation.fill.top": (
        "{value} guesses were asked for: give 1 or more",
        "要求 {value} 个猜测：应为 1 或更大的整数",
    ),
}
