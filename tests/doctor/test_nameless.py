"""What has a name that says nothing is tried as what it may be: another text, keys and values, a mask, weights."""

import pytest

from .test_usage import EDGES, PAIR, checked

THREE = PAIR.replace("hier, dort)", "hier, dort, da)").replace("self.c(dort)", "self.c(da)")
LAZY = PAIR.replace("nn.Linear(breite, breite)", "nn.LazyLinear(breite)")
SETTINGS = PAIR.replace("breite, stücke):", "s):").replace("= stücke", "= s.n_head").replace("breite", "s['d_model']")
BATCH = """
def blick(satz, gewichte, n_heads):
    b, n, d = satz.shape
    q, k, v = (np.stack(np.split(satz @ gewichte[w], n_heads, -1), 1) for w in ("Wq", "Wk", "Wv"))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(d // n_heads)
    g = np.exp(s - s.max(-1, keepdims=True))
    return ((g / g.sum(-1, keepdims=True)) @ v).swapaxes(1, 2).reshape(b, n, d) @ gewichte["Wo"]
"""
BOTH = (
    PAIR
    + """
class Paar(nn.Module):
    def __init__(self, breite, n_heads):
        super().__init__()
        self.l, self.r = Blick(breite, n_heads), Blick(breite, n_heads)
    def forward(self, hier, dort):
        return hier + self.l(hier, dort), dort + self.r(dort, hier)
"""
)
UNSAID = {
    "another text": (PAIR, "Blick"),
    "keys and values": (THREE, "Blick"),
    "a mask": (EDGES, "Netz"),
    "a dict of weights": (BATCH, "blick"),
    "layers that learn their width": (LAZY, "Blick"),
    "a configuration called s": (SETTINGS, "Blick"),
    "two texts come back": (BOTH, "Paar"),
}


@pytest.mark.parametrize("unsaid", UNSAID)
def test_names_only_order_the_tries(tmp_path, unsaid):
    code, name = UNSAID[unsaid]
    report = checked(tmp_path, code, name)
    assert report.verdict == "right", (report.problem, report.findings, report.unseen)


def test_the_attempt_that_came_farthest_is_told_with_what_it_got(tmp_path):
    code = "def f(hier, dort):\n    assert hier is not None\n    assert dort is not None\n    raise ValueError('far')\n"
    report = checked(tmp_path, code, "f")
    assert "far (line 7)" in str(report.problem) and "hier (" in str(report.problem), report.problem
