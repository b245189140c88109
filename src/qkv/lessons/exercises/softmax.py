"""Softmax: from any numbers to shares that add up to 1.

    softmax(x)ᵢ = eˣⁱ / (eˣ¹ + eˣ² + … + eˣᵐ)

Written down like that it breaks: e⁸⁰⁰ is more than a float64 can hold, inf / inf is NaN. But taking the
same number c off every x changes nothing, since e^(x−c) = eˣ/eᶜ and eᶜ cancels. With c = the largest x of
the row, no exponent is above 0, and nothing overflows:

    softmax(x)ᵢ = e^(xᵢ − max x) / Σⱼ e^(xⱼ − max x)

Every row is on its own: a row holds one query's scores, so it has its own maximum and its own sum.
----
softmax：把任意的数变成加起来为 1 的份额。

    softmax(x)ᵢ = eˣⁱ / (eˣ¹ + eˣ² + … + eˣᵐ)

照这样写会出错：e⁸⁰⁰ 超出了 float64 的范围，inf / inf 是 NaN。但每个 x 减去同一个数 c，结果不变，因为
e^(x−c) = eˣ/eᶜ，eᶜ 会约掉。取 c = 这一行的最大值，指数都不大于 0，就不会溢出：

    softmax(x)ᵢ = e^(xᵢ − max x) / Σⱼ e^(xⱼ − max x)

每一行各算各的：一行是一个查询的分数，有自己的最大值和自己的总和。
"""

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    """Shares along the last axis, for any number of axes: (…, M) → (…, M). −inf gets the share 0.
    ----
    沿最后一个轴的份额，轴数任意：(…, M) → (…, M)。−inf 的份额是 0。
    ----

    >>> softmax(np.array([[2.0, 1.0, 0.0], [1000.0, 1000.0, -np.inf]])).round(3).tolist()
    [[0.665, 0.245, 0.09], [0.5, 0.5, 0.0]]
    """
    # hole
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
    # end
