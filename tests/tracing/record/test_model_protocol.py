"""Ours and theirs of the same weights give the same answers to whatever looking asks of a model and of a tokenizer."""

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from qkv.text.tokenizer import Characters
from qkv.tracing.record.hf_model import HFModel
from qkv.tracing.record.model_protocol import model_of
from qkv.tracing.record.native_model import NativeModel
from qkv.tracing.record.tokenizer_protocol import ids_of, reader_of
from qkv.tracing.study.edits import edit
from tests.formats.test_hf_export import CASES, exported, random_model, theirs

TEXT = "a cat and a dog"


@pytest.fixture(scope="module", params=["gpt2", "bert", "bart"])
def both(request, tmp_path_factory):
    """(ours, its tokenizer), (theirs, its tokenizer)."""
    torch.manual_seed(0)
    tokenizer = Characters.make(TEXT, special=("pad", "bos", "eos", "mask", "unk"))
    model = random_model(CASES[request.param][1].replace(vocab=tokenizer.vocab), torch.float32)
    folder = exported(model, tokenizer, tmp_path_factory.mktemp(request.param) / "out")
    return (model, tokenizer), (theirs(folder), PreTrainedTokenizerFast.from_pretrained(folder))


def test_the_same_answers(both):
    answers = []
    for model, tokenizer in both:
        adapter = model_of(model)
        ids = reader_of(tokenizer).ids(TEXT, framed=False)
        ids += [reader_of(tokenizer).eos]
        target = ids[:4] if adapter.kind == "encoder-decoder" else None
        run, read, real = adapter.prepare([ids], tokenizer, target=target)
        heads = adapter.heads()
        part = next(iter(heads))
        with edit(model, f"{part}.1.0"):
            edited = run(read)
        answers.append([adapter.kind, adapter.context, heads, ids, real.tolist(), run(read), edited])
        assert not torch.equal(edited, run(read))
    ours, their = answers
    assert isinstance(model_of(both[0][0]), NativeModel) and isinstance(model_of(both[1][0]), HFModel)
    assert ours[:5] == their[:5]
    for a, b in zip(ours[5:], their[5:], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_the_same_of_a_tokenizer(both):
    (_, ours), (_, their) = both
    a, b = reader_of(ours), reader_of(their)
    assert (a.eos, a.mask, a.unknown) == (b.eos, b.mask, b.unknown)
    ids = a.ids(TEXT, framed=False)
    assert b.ids(TEXT, framed=False) == ids and a.text([*ids, a.eos]) == b.text([*ids, b.eos])
    assert a.tokens([a.eos, *ids]) == b.tokens([b.eos, *ids])
    assert ids_of({"input_ids": [[3, 4, 0]], "attention_mask": [[1, 1, 0]]}, ours) == [[3, 4]]


def test_no_tokenizer_calls_tokens_by_their_numbers_and_reads_no_text():
    reader = reader_of(None)
    assert reader.tokens([7, 8]).pieces == ("[7]", "[8]") and reader.source([[7]]) == [[7]]
    for encode in (reader.ids, reader.target, lambda text: reader.batch([text])):
        with pytest.raises(ValueError, match="needs a tokenizer"):
            encode(TEXT)


def test_what_is_nobody_s_is_refused():
    with pytest.raises(ValueError, match="a model of qkv or of transformers"):
        model_of(torch.nn.Linear(2, 2))
