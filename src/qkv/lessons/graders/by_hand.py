"""Five questions, one per step; the reference is `steps` on the same q, k and v."""

import numpy as np

from ...attention.steps import from_qkv
from ...words import Both
from ..exercises import by_hand as solved
from ..grade import row
from ..lesson import Lesson, Question, Wrong

NEAR = 0.011  # typed with two decimals, from numbers rounded to two decimals
STEPS = from_qkv([solved.q], solved.k, solved.v)
V = np.asarray(solved.v, dtype=np.float64)
SCORES, SCALED, WEIGHTS = STEPS.scores[0], STEPS.scaled[0], STEPS.weights[0]
RIGHT = {
    "scores": SCORES,
    "scaled": SCALED,
    "powers": np.exp(SCALED),
    "weights": WEIGHTS,
    "output": STEPS.output[0],
}
STEP = {name: i for i, name in enumerate(RIGHT, 1)}


def _typed(name: str) -> Question:
    def ask(answer: object) -> object:
        return getattr(answer, name)

    return Question(name, f"{STEP[name]}  {name}", ask, lambda: RIGHT[name], tolerance=NEAR)


def _theirs(got: np.ndarray, want: np.ndarray) -> dict[str, object]:
    return {"got": row(got), "sum": float(got.sum())}


LESSON = Lesson(
    questions=[_typed(name) for name in RIGHT],
    wrongs=[
        Wrong(
            "products",
            {"scores": [float(np.sum(solved.q) * np.sum(key)) for key in solved.k]},
            Both(
                "your scores {got} are (sum of q) × (sum of k). Multiply first, number by number, then add: 2·2 + 0·1 + 1·0 + 0·3.",
                "你的分数 {got} 是（q 的和）×（k 的和）。要先对应相乘，再相加：2·2 + 0·1 + 1·0 + 0·3。",
            ),
            _theirs,
        ),
        Wrong(
            "keys",
            {"scores": [float(np.dot(key, key)) for key in solved.k]},
            Both(
                "your scores {got} are each k with itself. The query asks: multiply q with each k.",
                "你的分数 {got} 是每个 k 与它自己的点积。提问的是查询：要用 q 去乘每个 k。",
            ),
            _theirs,
        ),
        Wrong(
            "by d",
            {"scaled": SCORES / 4},
            Both(
                "your {got} are the scores divided by d = 4. Divide by its root, √4 = 2.",
                "你的 {got} 是分数除以 d = 4。应该除以它的平方根 √4 = 2。",
            ),
            _theirs,
        ),
        Wrong(
            "unscaled",
            {"scaled": SCORES},
            Both(
                "your {got} are the scores as they were. q has d = 4 numbers, so divide each by √4 = 2.",
                "你的 {got} 就是原来的分数。q 有 d = 4 个数，所以每个分数要除以 √4 = 2。",
            ),
            _theirs,
        ),
        Wrong(
            "times root",
            {"scaled": SCORES * 2},
            Both(
                "your {got} are the scores times √d. Divide: the scores shall become smaller.",
                "你的 {got} 是分数乘以 √d。应该是除以，让分数变小。",
            ),
            _theirs,
        ),
        Wrong(
            "of scores",
            {"powers": np.exp(SCORES)},
            Both(
                "your {got} are e to the power of the unscaled scores. Take the scaled ones, 2, 1 and 0.",
                "你的 {got} 是 e 的（未缩放的分数）次方。要用缩放后的 2、1、0。",
            ),
            _theirs,
        ),
        Wrong(
            "powers of two",
            {"powers": 2**SCALED},
            Both(
                "your {got} are powers of 2. Softmax takes powers of e = 2.718…: e² = 7.389.",
                "你的 {got} 是 2 的次方。softmax 用的是 e = 2.718… 的次方：e² = 7.389。",
            ),
            _theirs,
        ),
        Wrong(
            "e to the 0",
            {"powers": np.where(SCALED == 0, 0.0, np.exp(SCALED))},
            Both(
                "your {got} has 0 for the scaled score 0, but e⁰ = 1, not 0, as with any number to the power of 0. So this word too gets a share.",
                "你的 {got} 里，缩放后的分数 0 得到了 0；但 e⁰ = 1，不是 0（任何非零数的 0 次方都是 1）。所以这个词也能分到一点。",
            ),
            _theirs,
        ),
        Wrong(
            "no powers",
            {"weights": SCALED / SCALED.sum()},
            Both(
                "your {got} are shares of the scaled scores themselves. Take shares of the powers of step 3; "
                "a score of 0 then still gets something, and negative ones work too.",
                "你的 {got} 是缩放后的分数本身的份额。应取第 3 步 powers 的份额：这样分数为 0 的词也能分到一点，负分数也没有问题。",
            ),
            _theirs,
        ),
        Wrong(
            "by the largest",
            {"weights": np.exp(SCALED) / np.exp(SCALED).max()},
            Both(
                "your weights {got} add up to {sum}, not 1: you divided by the largest power. Divide by the sum of all three.",
                "你的权重 {got} 加起来是 {sum}，不是 1：你除以了最大的那个。应除以三个的总和。",
            ),
            _theirs,
        ),
        Wrong(
            "unscaled weights",
            {"weights": np.exp(SCORES) / np.exp(SCORES).sum()},
            Both(
                "your weights {got} are the softmax of the unscaled scores: much sharper. Use the powers of step 3.",
                "你的权重 {got} 是未缩放分数的 softmax，尖锐得多。请用第 3 步的 powers。",
            ),
            _theirs,
        ),
        Wrong(
            "plain mean",
            {"output": V.mean(0)},
            Both(
                "your output {got} is the plain mean of the values: every word counted alike. Multiply each value by its weight first.",
                "你的输出 {got} 是各个值的普通平均，每个词一样重。要先把每个值乘以它的权重。",
            ),
            _theirs,
        ),
        Wrong(
            "plain sum",
            {"output": V.sum(0)},
            Both(
                "your output {got} is the sum of the values without weights. Multiply each value by its weight, then add.",
                "你的输出 {got} 是各个值直接相加，没有用权重。先乘以各自的权重，再相加。",
            ),
            _theirs,
        ),
        Wrong(
            "weighted mean over three",
            {"output": STEPS.output[0] / 3},
            Both(
                "your output {got} is a third of the right one. The weights add up to 1 already: don't divide by the number of words.",
                "你的输出 {got} 是正确结果的三分之一。权重加起来已经是 1，不要再除以词数。",
            ),
            _theirs,
        ),
        Wrong(
            "strongest",
            {"output": V[int(WEIGHTS.argmax())]},
            Both(
                "your output {got} is the value of the strongest word alone. Attention is soft: the others give their share too.",
                "你的输出 {got} 只是权重最大的那个词的值。注意力是“软”的：其他词也按份额贡献。",
            ),
            _theirs,
        ),
    ],
    hints=[
        Both(
            "Step 1, first word: 2·2 + 0·1 + 1·0 + 0·3.",
            "第 1 步第一个词：2·2 + 0·1 + 1·0 + 0·3。",
        ),
        Both(
            "q has four numbers, so d = 4 and √d = 2. The scaled scores are 2, 1 and 0.",
            "q 有四个数，所以 d = 4，√d = 2。缩放后的分数是 2、1、0。",
        ),
        Both(
            "The powers are e², e¹ and e⁰ = 1; their sum is 11.107. The first weight is 7.389 / 11.107.",
            "powers 是 e²、e¹ 和 e⁰ = 1，总和 11.107。第一个权重是 7.389 / 11.107。",
        ),
        Both(
            "The first number of the output: 0.665·1 + 0.245·0 + 0.090·1.",
            "输出的第一个数：0.665·1 + 0.245·0 + 0.090·1。",
        ),
    ],
    after=Both(
        "That is all of attention: softmax(q·Kᵀ/√d)·V. The rest of the course does this for many words, with masks and heads.",
        "注意力的全部就是这些：softmax(q·Kᵀ/√d)·V。后面的练习只是对很多词这样做，再加上掩码和多头。",
    ),
)
