"""One minute: what attention is."""

# %% library
import numpy as np

from tools.book.library import Library

# Topics: animals, sky, kitchen. | 主题：动物、天空、厨房。
spines = np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
asked = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [2.0, 0.0, 2.0]])
WORDS = {
    "en": (
        ("Who caught the mouse?", "Will it rain?", "What does a cat eat?"),
        (("Cats", "stories of cats"), ("Weather", "clouds and rain"), ("Cooking", "recipes")),
    ),
    "zh": (
        ("谁抓到了老鼠？", "会下雨吗？", "猫吃什么？"),
        (("《猫》", "猫的故事"), ("《天气》", "云和雨"), ("《烹饪》", "菜谱")),
    ),
}


def library(lang):
    return Library(lang, *WORDS[lang], asked, spines)


shares = library("en").shares

# %% head
from tools.book.figures import Look, demo

trace = demo("cat-smollm2")
layer, head, it_cat = trace.find("it", "cat")[0]
mat = float(trace.row(layer, head, "it")[trace.place("mat")])
n_heads = sum(trace.n_head(layer=one) for one in trace.layers())

# %% figures
it_head = Look(trace, layer, head, show=("map", "lines"), focus=("it", "cat"))
