"""Eight heads worth seeing, found by computation in the traces that come with qkv."""

# %% heads
from qkv.tracing.study.patterns import LOCAL
from tools.book.figures import Look, demo

cat, animal = demo("cat-smollm2"), demo("animal-smollm2")
bert, translator = demo("cat-minilm"), demo("weather-opus-zh-en")


def best(trace, kind, part=None):
    # The head with the highest score of a kind. | 某一类里得分最高的头。
    row = trace.patterns(part=part).best(kind, 1)[0]
    return row, row.scores[kind].value, row.scores[kind].baseline


n_heads = len(cat.patterns().table)
before, before_score, before_even = best(bert, "previous")
first, first_score, first_even = best(cat, "first")
after, after_score, after_even = best(translator, "next", "encoder")
self_, self_score, self_even = best(translator, "self", "encoder")
within = LOCAL
near, near_score, near_even = best(cat, "local")
even, even_score, _ = best(animal, "uniform")
across, across_score, across_even = best(translator, "diagonal", "cross")

# %% it
layer, head, it_cat = cat.find("it", "cat")[0]
also = animal.row(layer, head, "it")[animal.place("animal")]
at_cat = cat.place("cat")
later = cat.map(layer, head)[at_cat + 1 :].argmax(-1)
followers = int((later == at_cat).sum())
sinks = len(cat.patterns().named("first"))

# %% words
asks, seen = translator.tokens("cross").shown, translator.tokens("cross", keys=True).shown
table = translator.map(across.layer, across.head, part="cross")
go, want = (translator.place(word, "cross") for word in ("go", "want"))
go_to, want_to = (int(table[word].argmax()) for word in (go, want))
longest = len(animal.tokens())

# %% figures
it_head = Look(cat, layer, head, show=("map", "lines"), focus=("it", "cat"))
sink_head = Look(cat, first.layer, first.head)
previous_head = Look(bert, before.layer, before.head)
next_head = Look(translator, after.layer, after.head, part="encoder")
self_head = Look(translator, self_.layer, self_.head, part="encoder", focus=(2, 2))
near_head = Look(cat, near.layer, near.head)
even_head = Look(animal, even.layer, even.head)
across_head = Look(translator, across.layer, across.head, show=("map", "lines"), part="cross", focus=(go, go_to))
