"""One query looks at three words. Compute its attention with pencil and calculator, and type the numbers in.

A query q asks, every word answers with a key k and hands over a value v. Five steps:

    1  scores    q·k for each word: multiply the numbers pairwise and add them up
    2  scaled    each score divided by √d, where d is how many numbers q has
    3  powers    e to the power of each scaled score (the key eˣ of a calculator)
    4  weights   each power divided by the sum of the powers: shares, which add up to 1
    5  output    the values, each times its weight, added up

An example with d = 4 and two words, q = [1, 1, 0, 0], k = [2, 0, 5, 5] and [0, 0, 1, 1], v = [10, 0] and
[0, 10]: scores [2, 0], scaled [1, 0] (divided by √4 = 2), powers [2.72, 1], weights [0.73, 0.27], output
[7.3, 2.7].

Two decimals are enough. Each step is graded by itself, so check after the first if you like.
----
一个查询看三个词。请用纸笔和计算器算出它的注意力，把数填进来。

查询 q 提问，每个词用键 k 应答，并交出值 v。共五步：

    1  scores    q 与每个词的 k 做点积：对应的数相乘，再加起来
    2  scaled    每个分数除以 √d，d 是 q 里有几个数
    3  powers    e 的幂，指数是缩放后的分数，即计算器上的 eˣ
    4  weights   每个 power 除以它们的总和：各占的份额，加起来是 1
    5  output    每个值乘以自己的权重，再加起来

例子：d = 4，两个词，q = [1, 1, 0, 0]，k = [2, 0, 5, 5] 和 [0, 0, 1, 1]，v = [10, 0] 和 [0, 10]：
scores [2, 0]，scaled [1, 0]（除以 √4 = 2），powers [2.72, 1]，weights [0.73, 0.27]，output [7.3, 2.7]。

保留两位小数就够了。每一步单独评分，可以填完一步就检查一次。
"""

q = [2, 0, 1, 0]

k = [
    [2, 1, 0, 3],  # The | 这只
    [0, 5, 2, 1],  # black | 黑
    [-1, 0, 2, 1],  # cat | 猫
]

v = [
    [1, 0],  # The | 这只
    [0, 1],  # black | 黑
    [1, 1],  # cat | 猫
]

# 1  q·k, one number per word | 1  q·k，每个词一个数
# hole: scores = [..., ..., ...]
scores = [4.0, 2.0, 0.0]
# end

# 2  divided by √d | 2  除以 √d
# hole: scaled = [..., ..., ...]
scaled = [2.0, 1.0, 0.0]
# end

# 3  e to that power | 3  取 e 的幂
# hole: powers = [..., ..., ...]
powers = [7.39, 2.72, 1.0]
# end

# 4  shares of the sum | 4  占总和的份额
# hole: weights = [..., ..., ...]
weights = [0.67, 0.24, 0.09]
# end

# 5  Σ weight × v, two numbers | 5  Σ 权重 × v，两个数
# hole: output = [..., ...]
output = [0.76, 0.33]
# end
