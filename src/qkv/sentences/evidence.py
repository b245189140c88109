"""The numbers that show a mistake, as `qkv check` says them; and its remarks."""

_EQUALS = "your numbers equal attention computed so to {error:.0e}"
_EQUAL = "按这种算法得到的数与你的结果相差只有 {error:.0e}"

SENTENCES: dict[str, tuple[str, str]] = {
    "evidence.S1": (
        "your scores are multiplied by {used} = {value} instead of divided by √{head} = {root}: " + _EQUALS,
        "你的分数乘了 {used} = {value}，应该除以 √{head} = {root}：" + _EQUAL,
    ),
    "evidence.S2": (
        "your scores are not scaled: " + _EQUALS + "; d_k is {head}, so they should be divided by √{head} = {root}",
        "你的分数没有缩放：" + _EQUAL + "；d_k 是 {head}，应该除以 √{head} = {root}",
    ),
    "evidence.S3": (
        "you divide by √{width} = {wide}: " + _EQUALS + "; d_k is {head}, so it should be √{head} = {root}",
        "你除以的是 √{width} = {wide}：" + _EQUAL + "；d_k 是 {head}，应该除以 √{head} = {root}",
    ),
    "evidence.scores.scale": (
        "what goes into the softmax is q·k times {scale}; q and k are {head} wide, so it should be 1/√{head} = {right}",
        "进入 softmax 的是 q·k 乘 {scale}；q 和 k 的宽度是 {head}，应该乘 1/√{head} = {right}",
    ),
    "evidence.scores.axis": (
        "the shares of the softmax add up to 1 along another axis than the keys: {axis}",
        "softmax 的份额是沿别的轴（{axis}）加起来等于 1 的，而不是沿键",
    ),
    "evidence.S4": (
        "your scores are multiplied by {used}: " + _EQUALS + "; d_k is {head}, so it should be 1/√{head} = {right}",
        "你的分数乘了 {used}：" + _EQUAL + "；d_k 是 {head}，应该乘 1/√{head} = {right}",
    ),
    "evidence.S4.size": (
        "your scores are multiplied by {used}, which is {size}: "
        + _EQUALS
        + "; d_k is {head}, so it should be 1/√{head} = {right}",
        "你的分数乘了 {used}，用的是{size}：" + _EQUAL + "；d_k 是 {head}，应该乘 1/√{head} = {right}",
    ),
    "evidence.S6": (
        "the softmax comes first and its result is divided by {used} = {value}: "
        + _EQUALS
        + "; the weights of a row sum to {sum}, not 1",
        "先做了 softmax，再把结果除以 {used} = {value}：" + _EQUAL + "；每行权重之和是 {sum}，不是 1",
    ),
    "evidence.S8": (
        "called with width {first}, then with {second}, it gives other numbers (by {change:.1%}) than when called with {second} at once: the scale of the first call is kept",
        "先用宽度 {first} 调用、再用 {second} 调用，结果与直接用 {second} 调用相差 {change:.1%}：第一次的缩放被记住了",
    ),
    "evidence.S7": (
        "a single text of shape (n, d) runs, a batch (B, n, d) does not: {error}",
        "单个文本 (n, d) 能算，成批的 (B, n, d) 不行：{error}",
    ),
    "evidence.X1": (
        "the softmax runs over the queries: " + _EQUALS + "; each column of your weights sums to 1, the rows don't",
        "softmax 是沿查询那个轴做的：" + _EQUAL + "；你的权重每列之和是 1，而每行不是",
    ),
    "evidence.X2": (
        "the softmax runs over the batch: " + _EQUALS + "; one text's weights depend on the texts beside it",
        "softmax 是沿批次那个轴做的：" + _EQUAL + "；一条文本的权重取决于同批的其他文本",
    ),
    "evidence.X3": (
        "the softmax runs over {axis}: " + _EQUALS,
        "softmax 是沿{axis}做的：" + _EQUAL,
    ),
    "evidence.X5": (
        "with inputs 300 times as large, {bad:.0f} % of the output is NaN or infinite: e to a large number overflows",
        "输入放大 300 倍后，{bad:.0f} % 的输出是 NaN 或无穷：很大的数取 e 的幂会溢出",
    ),
    "evidence.X6": (
        "the raw scores are used as weights: " + _EQUALS + "; the softmax has no effect",
        "直接把分数当权重用了：" + _EQUAL + "；softmax 没有起作用",
    ),
    "evidence.X6.growth": (
        "twice the input gives {growth:.1f} times the output: weights that sum to 1 give at most twice",
        "输入变为两倍，输出变为 {growth:.1f} 倍：和为 1 的权重最多给出两倍",
    ),
    "evidence.X7": (
        "the mask given as `{parameter}` is applied after the softmax: " + _EQUALS + "; the rows no longer sum to 1",
        "`{parameter}` 掩码是在 softmax 之后才用的：" + _EQUAL + "；每行之和不再是 1",
    ),
    "evidence.X7.causal": (
        "the causal mask is applied after the softmax: "
        + _EQUALS
        + "; the first row sums to less than 1, and later tokens still shift the weights",
        "因果掩码是在 softmax 之后才用的：" + _EQUAL + "；行和小于 1，后面的词仍会影响权重",
    ),
    "evidence.X8.before": (
        "in training mode the softmax takes scores that a dropout with p = {p} has been at: dropped scores become 0, and e⁰ = 1 is a weight",
        "训练模式下，softmax 拿到的是经过 p = {p} 的 dropout 的分数：被丢掉的分数成了 0，而 e⁰ = 1 也是权重",
    ),
    "evidence.X8": (
        "in training mode {part:.0f} % of the output is NaN: dropout before the softmax multiplies −inf by 0",
        "训练模式下 {part:.0f} % 的输出是 NaN：softmax 之前的 dropout 把 −inf 乘了 0",
    ),
    "evidence.H1": (
        "heads are cut by view/reshape alone, so a head holds parts of several tokens: " + _EQUALS,
        "直接用 view/reshape 切头，一个头里混进了几个词的数：" + _EQUAL,
    ),
    "evidence.H2": (
        "heads are put together without transposing first, so a token's output holds parts of other tokens: " + _EQUALS,
        "合并头之前没有转置，一个词的输出里混进了别的词：" + _EQUAL,
    ),
    "evidence.H3": (
        "batch and heads are mixed up: " + _EQUALS + "; a text's output depends on the texts beside it",
        "批次和头混在了一起：" + _EQUAL + "；一条文本的输出取决于同批的其他文本",
    ),
    "evidence.H4": (
        "asked for {heads} heads, computed as one head of width {width}: " + _EQUALS,
        "要的是 {heads} 个头，实际只算了一个宽度为 {width} 的头：" + _EQUAL,
    ),
    "evidence.H6": (
        "all {heads} heads share one {head}×{head} matrix: {shared} weights where {right} belong",
        "{heads} 个头共用一个 {head}×{head} 的矩阵：只有 {shared} 个权重，应该有 {right} 个",
    ),
    "evidence.H8": (
        "query heads look at the wrong shared key heads (tiled 0,1,0,1 instead of 0,0,1,1): " + _EQUALS,
        "查询头用错了共享的键头（按 0,1,0,1 平铺，应为 0,0,1,1）：" + _EQUAL,
    ),
    "evidence.H9": (
        "a token sees the same place of other texts and nothing of its own: attention runs over the first axis, the batch",
        "一个词看到的是别的文本中同一位置的词，看不到自己文本里的其他词：注意力是沿第一个轴（批次）做的",
    ),
    "evidence.H10": (
        "`{name}` holds one and the same layer {times} times: all of them share their weights",
        "`{name}` 里的 {times} 层是同一个对象：它们共用一套权重",
    ),
    "evidence.H11": (
        "the heads are combined by their {how} instead of side by side: " + _EQUALS,
        "各头的结果是用 {how} 合起来的，没有并排拼接：" + _EQUAL,
    ),
    "evidence.across": (
        "a text computed alone and in a batch differ by {change:.1%}: its output depends on the texts beside it",
        "同一条文本单独算与成批算相差 {change:.1%}：它的输出取决于同批的其他文本",
    ),
    "evidence.order": (
        "shuffled tokens should give shuffled outputs, but they differ by {change:.1%}; copies of one token give outputs that differ by {spread:.1%}: numbers of different tokens are mixed where heads are cut or put together",
        "打乱词序应只打乱输出，实际相差 {change:.1%}；同一个词的几份拷贝输出相差 {spread:.1%}：切头或合并头时把不同词的数混在了一起",
    ),
    "evidence.rows": (
        "values that are all alike come out multiplied by {low} to {high}: the weights of a row don't sum to 1",
        "所有值都相同时，输出却是它的 {low} 到 {high} 倍：每行权重之和不是 1",
    ),
    "evidence.M1": (
        "`{parameter}` keeps what it should block: " + _EQUALS + " with the mask the other way round",
        "`{parameter}` 该挡的没挡、该留的没留：把掩码反过来，" + _EQUAL,
    ),
    "evidence.M1.triangle": (
        "a token sees only tokens after itself: the causal mask is the wrong way round",
        "每个词只看得到后面的词：因果掩码反了",
    ),
    "evidence.M2": (
        "`{parameter}` changes nothing: the masked scores are computed and thrown away",
        "`{parameter}` 不起任何作用：算出的带掩码的分数被丢掉了",
    ),
    "evidence.M2.causal": (
        "every token sees all tokens after itself: the masked scores are computed and thrown away",
        "每个词都看得到后面的词：算出的带掩码的分数被丢掉了",
    ),
    "evidence.M3": (
        "`{parameter}` changes nothing, in any of {tried} shapes and types that were tried: it never reaches the softmax",
        "`{parameter}` 不起任何作用（试了 {tried} 种形状和类型）：它没有传到 softmax",
    ),
    "evidence.M5": (
        "given `{parameter}`, masked keys are still seen: the causal mask takes its place, " + _EQUALS,
        "给了 `{parameter}`，被遮的键还是看得到：它被因果掩码覆盖了，" + _EQUAL,
    ),
    "evidence.M6": (
        "given `{parameter}`, tokens see what comes after them: the causal mask is dropped, " + _EQUALS,
        "给了 `{parameter}` 之后，词就看得到后面的词：因果掩码被丢掉了，" + _EQUAL,
    ),
    "evidence.causal.unwanted": (
        "tokens don't see what comes after them, though this was said not to be causal",
        "词看不到后面的词，而你说这里不是因果注意力",
    ),
    "evidence.M7": (
        "`{parameter}` is added to the scores as 0 and 1: " + _EQUALS + "; masked keys keep their weight",
        "`{parameter}` 以 0 和 1 加到了分数上：" + _EQUAL + "；被遮的键仍有权重",
    ),
    "evidence.M7.causal": (
        "the causal mask is added to the scores as 0 and 1: " + _EQUALS + "; tokens see what comes after them",
        "因果掩码以 0 和 1 加到了分数上：" + _EQUAL + "；词看得到后面的词",
    ),
    "evidence.M8": (
        "masked scores become 0, and e⁰ = 1 is a weight like any other: " + _EQUALS,
        "被遮的分数成了 0，而 e⁰ = 1 也是权重：" + _EQUAL,
    ),
    "evidence.M8.causal": (
        "scores of later tokens become 0, and e⁰ = 1 is a weight like any other: " + _EQUALS,
        "后面的词的分数成了 0，而 e⁰ = 1 也是权重：" + _EQUAL,
    ),
    "evidence.M9": (
        "masked scores are filled with a number close to 0, and e⁰ = 1: " + _EQUALS,
        "被遮的分数填的是接近 0 的数，而 e⁰ = 1：" + _EQUAL,
    ),
    "evidence.M9.causal": (
        "scores of later tokens are filled with a number close to 0, and e⁰ = 1: " + _EQUALS,
        "后面的词的分数填的是接近 0 的数，而 e⁰ = 1：" + _EQUAL,
    ),
    "evidence.M11": (
        "`{parameter}` blocks the rows of padded queries instead of the columns of padded keys: " + _EQUALS,
        "`{parameter}` 挡的是填充词作为查询的行，而不是作为键的列：" + _EQUAL,
    ),
    "evidence.mask.nan": (
        "with `{parameter}` given, the output has NaN in every shape and type of mask that was tried",
        "给出 `{parameter}` 后，试过的每种形状和类型的掩码都得到 NaN",
    ),
    "evidence.mask.leak": (
        "in no shape and type that was tried does `{parameter}` hide the keys it should: changing them changes the output",
        "试过的各种形状和类型里，`{parameter}` 都没有遮住该遮的键：改动它们，输出也变",
    ),
    "evidence.M1.said": (
        "`{parameter}` was said to mark what to {said}, and the code takes it the other way round",
        "你说 `{parameter}` 标出的是 {said}（keep 保留，block 屏蔽），代码却反着用",
    ),
    "evidence.M1.made": (
        "`{maker}` (line {at}) gives {shown}: {sign} means {means}. This code takes the {sign} in `{parameter}` for the "
        "opposite, and looks at just what should be hidden",
        "第 {at} 行的 `{maker}` 得到 {shown}：{sign} 表示{means}。这段代码却把 `{parameter}` 里的 {sign} 当成相反的意思，看的正是该遮住的",
    ),
    "evidence.M1.reversed": (
        "`{maker}` (line {at}) gives {shown}: added to the scores, it hides what may be seen and shows what may not",
        "第 {at} 行的 `{maker}` 得到 {shown}：加到分数上，遮住的是该看的，露出的是该遮的",
    ),
    "evidence.M7.made": (
        "`{maker}` (line {at}) gives {shown}, and this code adds `{parameter}` to the scores: 1 more or less hides nothing",
        "第 {at} 行的 `{maker}` 得到 {shown}，这段代码却把 `{parameter}` 直接加到分数上：多 1 少 1 什么也遮不住",
    ),
    "remark.M1": (
        "a comment says that True in `{parameter}` means {said}, and the code takes it for the opposite: one of the two is "
        "wrong",
        "注释说 `{parameter}` 里的 True 表示{said}，代码却正相反：两者必有一错",
    ),
    "evidence.M7.said": (
        "`{parameter}` is made of true and false, and is added to the scores: 1 more or less hides nothing",
        "`{parameter}` 是真假值，却直接加到了分数上：多 1 少 1 什么也遮不住",
    ),
    "evidence.M5.two": (
        "given with `{other}`, `{parameter}` no longer hides anything: " + _EQUALS + " with `{other}` alone",
        "与 `{other}` 一起给出时，`{parameter}` 就不再起作用：只用 `{other}` 时" + _EQUAL,
    ),
    "evidence.nan": (
        "{part:.0f} % of the rows are NaN, from finite numbers and without a mask handed over",
        "输入都是有限的数，也没有传入掩码，却有 {part:.0f} % 的行是 NaN",
    ),
    "evidence.M12.nan": (
        "rows {rows} are NaN: these tokens may look at nothing",
        "第 {rows} 行是 NaN：这些词什么都看不到",
    ),
    "evidence.H7": (
        "the fused projection is {cut} (in heads), and q, k, v begin at {right}: " + _EQUALS,
        "合并的投影按 {cut} 切开（以头为单位），而 q、k、v 应从 {right} 开始：" + _EQUAL,
    ),
    "evidence.H7.crash": (
        "with fewer key heads than query heads it stops: {error}",
        "键的头数少于查询的头数时就出错：{error}",
    ),
    "evidence.R4.numbers": (
        "the rotary angles are laid out for another pairing of channels than the turn uses: " + _EQUALS,
        "旋转角度的排列与旋转的配对方式不一致：" + _EQUAL,
    ),
    "evidence.R7.numbers": (
        "the slopes of ALiBi are off ({how}); head h of {heads} has 2^(−8(h+1)/{heads}): " + _EQUALS,
        "ALiBi 的斜率不对（{how}）；{heads} 个头中第 h 个应为 2^(−8(h+1)/{heads})：" + _EQUAL,
    ),
    "evidence.M12.strict": (
        "a token doesn't see itself: the triangle leaves out the diagonal, and the first token sees nothing",
        "词看不到自己：三角掩码少了对角线，第一个词什么也看不到",
    ),
    "evidence.M12.ahead": (
        "a token sees the one after itself: the triangle's diagonal is off by one",
        "词看得到自己后面那一个：三角掩码的对角线错了一格",
    ),
    "evidence.M12.transposed": (
        "a token sees itself and what comes after it, and nothing before: the triangle is upside down",
        "词只看得到自己和后面的词，看不到前面：三角掩码上下颠倒了",
    ),
    "evidence.M14": (
        "every token sees all tokens after itself: there is no causal mask",
        "每个词都看得到后面所有的词：没有因果掩码",
    ),
    "evidence.M15": (
        "`{parameter}` is repeated over the heads in the wrong order, so texts get each other's masks: " + _EQUALS,
        "`{parameter}` 沿头重复的顺序错了，文本之间的掩码张冠李戴：" + _EQUAL,
    ),
    "evidence.M16": (
        "`{parameter}` lands on the wrong axis: {error}",
        "`{parameter}` 落在了错误的轴上：{error}",
    ),
    "evidence.M17": (
        "every mask given as `{parameter}` stops it: {error}",
        "只要给出 `{parameter}` 就会出错：{error}",
    ),
    "evidence.M17.without": (
        "without a mask it stops, with one it runs: {error}",
        "不给掩码就出错，给了才能运行：{error}",
    ),
    "evidence.M19": (
        "with large scores, masked keys change the output by {change:.1%}: the fill value isn't low enough",
        "分数很大时，被遮的键使输出变化 {change:.1%}：填充值不够小",
    ),
    "evidence.M20": (
        "{worked} tokens run, {n} don't: {error}",
        "{worked} 个词能算，{n} 个词就出错：{error}",
    ),
    "evidence.M21": (
        "asked for a window of {asked}, a token sees {seen} tokens",
        "要的窗口是 {asked}，实际每个词看到 {seen} 个词",
    ),
    "evidence.P1": (
        "`{unused}` gets no gradient: it is never used; the projections that ran are {used}",
        "`{unused}` 没有梯度：它从未被用到；实际用到的投影是 {used}",
    ),
    "evidence.P2": (
        "changing `{parameter}` changes nothing in the output: it is computed from another input",
        "改动 `{parameter}`，输出毫无变化：它是用别的输入算出来的",
    ),
    "evidence.P3": (
        "{missing} missing: the inputs themselves take their place, number for number",
        "缺少 {missing}：实际直接用了输入本身，逐个数字都吻合",
    ),
    "evidence.P4": (
        "the {heads} heads' outputs are put side by side and handed back: no weight comes after them",
        "{heads} 个头的结果拼起来就直接返回了：后面没有任何权重",
    ),
    "evidence.C1": (
        "changing `{parameter}` changes nothing in the output: the encoder is never looked at",
        "改动 `{parameter}`，输出毫无变化：根本没有看编码器的输出",
    ),
    "evidence.C2": (
        "`{parameter}` does nothing; `{other}`, the target's own mask, hides the memory in its place, so padded memory changes the output (by {change:.1%})",
        "`{parameter}` 不起作用；遮住编码器输出的是目标端的 `{other}`，于是填充的编码器输出会改变结果（{change:.1%}）",
    ),
    "evidence.C3": (
        "{n} queries with {n} keys run, {n} queries with {m} keys don't: {error}",
        "{n} 个查询配 {n} 个键能算，{n} 个查询配 {m} 个键就出错：{error}",
    ),
    "evidence.C4": (
        "the target's mask compares with the source's padding id",
        "目标端的掩码用的是源端的填充编号",
    ),
    "evidence.C5": (
        "the output follows the memory's length ({m}), not the query's ({n}): the roles are swapped",
        "输出长度跟着编码器（{m}），而不是查询（{n}）：两者的角色颠倒了",
    ),
    "evidence.R1": (
        "the table differs from sin and cos of position / 10000^(2i/d) by up to {change:.2g}; {why}",
        "表与 sin、cos(位置 / 10000^(2i/d)) 相差最多 {change:.2g}；{why}",
    ),
    "evidence.R3": (
        "all tokens of a text get the same code, and texts different ones: the table is read by the batch's index",
        "同一文本的所有词得到同一个编码，不同文本则不同：表是按批次的下标取的",
    ),
    "evidence.R4": (
        "turned queries and keys should depend on the distance alone, but differ by {change:.1%} at the same distance: the angles are laid out for another pairing of channels than the turn uses",
        "旋转后的 q·k 应只取决于距离，实际在同一距离上相差 {change:.1%}：角度的排列与旋转的配对方式不一致",
    ),
    "evidence.R5": (
        "the numbers are those of attention without positions: q and k are turned alike at every place, by another axis than the tokens'",
        "结果与没有位置的注意力完全一样：q 和 k 在每个位置上都转了同样的角度，跟的是别的轴，不是词的位置",
    ),
    "evidence.R5.same": (
        "every token of a text is turned alike: the turn follows another axis than the tokens'",
        "同一文本的每个词都被转了同样的角度：旋转跟的是别的轴，不是词的位置",
    ),
    "evidence.R6": (
        "q and k are turned over the whole width, before the heads are cut: " + _EQUALS,
        "在切头之前就对整个宽度做了旋转：" + _EQUAL,
    ),
    "evidence.R7": (
        "the slopes are {found}, and should be {right}",
        "斜率是 {found}，应该是 {right}",
    ),
    "evidence.K1": (
        "token by token through the cache differs from all at once by {change:.1%}, from token {place} on: the position of later tokens is wrong",
        "逐词走缓存与一次算完相差 {change:.1%}，从第 {place} 个词开始：后面的词位置不对",
    ),
    "evidence.K2": (
        "after a prefix in the cache, several tokens at once differ from the whole by {change:.1%}: they see only the first keys, the triangle stands at the upper left",
        "缓存里已有前文时一次送入几个词，与整体计算相差 {change:.1%}：它们只看得到最前面的键，三角掩码对齐到了左上角",
    ),
    "evidence.K3": (
        "several tokens at once with a cache differ from the whole by {change:.1%}: within the piece, tokens see what comes after them",
        "带缓存一次送入几个词，与整体计算相差 {change:.1%}：这几个词之间能看到后面的词",
    ),
    "evidence.K4": (
        "beyond the window, token by token differs from the whole by {change:.1%}: slots are overwritten before they are used",
        "超出窗口后，逐词计算与整体相差 {change:.1%}：缓存位置在使用之前就被覆盖了",
    ),
    "evidence.K5": (
        "one token at a time through the cache differs from all at once by {change:.1%}",
        "逐词走缓存与一次算完相差 {change:.1%}",
    ),
    "evidence.N1": (
        "in half precision it stops: {error}",
        "在半精度下出错：{error}",
    ),
    "evidence.N2": (
        "with gradients on it stops: {error}",
        "打开梯度后出错：{error}",
    ),
    "evidence.N3": (
        "`{parameter}` is another tensor after the call than before: it is changed in place",
        "调用之后 `{parameter}` 的内容变了：它被就地修改了",
    ),
    "evidence.T1": (
        "a {kind} with weights is made anew inside the call: no optimizer ever sees it",
        "每次调用都新建一个带权重的 {kind}：优化器永远看不到它",
    ),
    "evidence.T1.random": (
        "a {kind} with random weights is made anew inside the call: two calls in eval mode give different numbers",
        "每次调用都新建一个权重随机的 {kind}：eval 模式下两次调用结果不同",
    ),
    "evidence.T2": (
        "{count} layers stand in a plain list: their {missed} weights are not among parameters() ({known} are)",
        "有 {count} 层放在普通列表里：它们的 {missed} 个权重不在 parameters() 中（其中只有 {known} 个）",
    ),
    "evidence.T2.tensor": (
        "{names}: plain tensors, not nn.Parameter; parameters() has {known} numbers and these are not among them",
        "{names} 是普通张量，不是 nn.Parameter；parameters() 里有 {known} 个数，不包括它们",
    ),
    "evidence.T3": (
        "in eval mode two equal calls differ by {change:.1%}: dropout with p = {p} is still at work",
        "eval 模式下两次相同的调用相差 {change:.1%}：p = {p} 的 dropout 仍在起作用",
    ),
    "evidence.T3.random": (
        "in eval mode two equal calls differ by {change:.1%}: something random is still at work",
        "eval 模式下两次相同的调用相差 {change:.1%}：仍有随机的东西在起作用",
    ),
    "evidence.T5": (
        "the residual adds the normed input instead of the input: the output is norm(x) + …, number for number",
        "残差加的是归一化后的输入，不是输入本身：输出就是 norm(x) + …，逐个数字都吻合",
    ),
    "evidence.T6": (
        "the output is {found}, and should be {right}",
        "输出是 {found}，应该是 {right}",
    ),
    "evidence.T6.unused": (
        "`{unused}` gets no gradient: that norm is never used",
        "`{unused}` 没有梯度：这个归一化层从未被用到",
    ),
    "evidence.T8": (
        "attention gets norm(x) as its query but x itself as key and value",
        "注意力的查询是 norm(x)，键和值却是 x 本身",
    ),
    "evidence.W1": ("it stops: {error}", "运行出错：{error}"),
    "remark.M18.nan": (
        "a row that may look at nothing gives NaN (−inf everywhere); make sure that no text is all padding",
        "什么都不能看的行得到 NaN（全是 −inf）；请确保没有整条都是填充的文本",
    ),
    "remark.M18.zero": (
        "a row that may look at nothing gives 0",
        "什么都不能看的行得到 0",
    ),
    "remark.M18.uniform": (
        "a row that may look at nothing looks at everything alike (a finite fill value)",
        "什么都不能看的行会平均地看所有词（填充值是有限的数）",
    ),
    "remark.X8": (
        "in training mode the weights handed back are those after dropout (rows sum to {low:.2f} … {high:.2f}); read plots in eval mode",
        "训练模式下返回的是 dropout 之后的权重（行和为 {low:.2f} … {high:.2f}）；看图请用 eval 模式",
    ),
    "remark.E1.mask": (
        "the causal mask is built anew in every call: right, but a buffer made once is faster",
        "每次调用都重新构造因果掩码：结果对，但在初始化时存成 buffer 更快",
    ),
    "remark.E1.loop": (
        "a Python loop over the heads: right, but one product over all heads is faster",
        "用 Python 循环逐个计算各头：结果对，但所有头一次相乘更快",
    ),
    "remark.N1": (
        "its fill value does not fit into half precision: write torch.finfo(scores.dtype).min or -inf before training in float16",
        "填充值超出半精度的范围：要用 float16 训练，请改写为 torch.finfo(scores.dtype).min 或 -inf",
    ),
    "remark.T5": (
        "the scores are not scaled: T5 is defined so, its weights are drawn for it",
        "分数没有缩放：T5 就是这样定义的，权重的初值已考虑到这一点",
    ),
    "remark.H8": (
        "query heads share key heads 0, 1, 0, 1 …, this library's own convention; LLaMA's weights mean 0, 0, 1, 1 …",
        "查询头按 0、1、0、1……共享键头，这是这个库自己的约定；LLaMA 的权重是 0、0、1、1……",
    ),
    "remark.S2": (
        "the scores are not scaled, but W_Q was drawn smaller by 1/√{head}: the scale is in the weights from the start",
        "分数没有缩放，但 W_Q 的初值小了 1/√{head}：缩放一开始就在权重里",
    ),
    "remark.dropout": (
        "nn.Dropout() without a number drops half of everything ({names})",
        "nn.Dropout() 不写数字时会丢掉一半（{names}）",
    ),
    "remark.scale": (
        "the scale is {scale}, not 1/√{head} = {right}; taken as meant so (1/d, learned or passed in)",
        "缩放是 {scale}，不是 1/√{head} = {right}；视为有意为之（1/d、可学习或由调用者给出）",
    ),
    "check.cannot.apart": (
        "{name} is no attention: no token's output depends on another token",
        "{name} 不是注意力：每个词的输出都与别的词无关",
    ),
    "check.cannot.forward": (
        "{name} has no forward method: there is nothing to call",
        "{name} 没有 forward 方法：没有可调用的东西",
    ),
    "check.cannot.names": (
        "--call names an argument that {name} does not have; it has: {reason}",
        "--call 指的参数 {name} 没有；它的参数是：{reason}",
    ),
    "check.cannot.build": (
        'could not build {name}: {reason}. Say how: --args "d_model=64, num_heads=8"',
        '无法构造 {name}：{reason}。请说明怎样构造：--args "d_model=64, num_heads=8"',
    ),
    "check.cannot.call": (
        'could not call {name}: {reason} (line {line}). Say what its arguments are: --call "q=first, mask=second", or how it is built: --args "d_model=64, num_heads=8"',
        '无法调用 {name}：{reason}（第 {line} 行）。请说明各参数是什么：--call "q=first, mask=second"，或怎样构造：--args "d_model=64, num_heads=8"',
    ),
}
