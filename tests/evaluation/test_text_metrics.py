"""What a model is said to cost is what transformers says, computed the plain way: one token after another."""

import math
import sys

import numpy as np
import pytest
import sacrebleu
import torch
import torch.nn.functional as F
import transformers
from hypothesis import given
from hypothesis import strategies as st

from qkv import Config, Transformer, load
from qkv.evaluation import text_metrics
from qkv.evaluation.text_metrics import metrics, score_pairs, score_text, windows, without_metrics
from qkv.formats.open_model import open_any
from qkv.generation import batching
from qkv.i18n import Notice, Problem
from qkv.model import word_loss
from qkv.text import Bytes, Characters
from tests.formats.files import hf_model
from tests.formats.test_families import exactly

TOKENIZER = Bytes.make(special=["pad", "bos", "eos"])
PAD, EOS = TOKENIZER.pad, TOKENIZER.eos
TEXTS = {
    "English": "The cat sat on the mat, because it was tired.",
    "Chinese": "我爱北京天安门，天安门上太阳升",
    "odd": "\n\n  \u200d0x1f é\t🙂🙂\r\n a",
}
TIGHT = {torch.float32: 1e-6, torch.float64: 1e-10}
SIZES = dict(vocab_size=TOKENIZER.vocab, pad_token_id=PAD, eos_token_id=EOS)
T5 = dict(d_model=22, d_kv=6, d_ff=19, num_layers=2, num_heads=3)
GEMMA = dict(hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, head_dim=6)
PEGASUS = dict(d_model=24, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3, decoder_attention_heads=2)


def t5():
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**SIZES, **T5, decoder_start_token_id=PAD))
    return model.eval()


def pegasus():
    more = dict(encoder_ffn_dim=20, decoder_ffn_dim=20, max_position_embeddings=70, decoder_start_token_id=PAD)
    config = transformers.PegasusConfig(**SIZES, **PEGASUS, **more, forced_eos_token_id=None)
    return transformers.PegasusForConditionalGeneration(config).eval()


MODELS = {
    "llama": lambda: hf_model("llama", vocab_size=TOKENIZER.vocab, max_position_embeddings=23),
    "gpt2": lambda: hf_model("gpt2", vocab_size=TOKENIZER.vocab, n_positions=23),
    "t5": t5,
    "marian": lambda: hf_model("marian", **SIZES, decoder_start_token_id=PAD, forced_eos_token_id=EOS),
    # Layouts that qkv doesn't know: opened by transformers.
    "gemma2": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**SIZES, **GEMMA, num_key_value_heads=2, max_position_embeddings=23)
    ).eval(),
    "pegasus": pegasus,
    "electra": lambda: transformers.ElectraForCausalLM(
        transformers.ElectraConfig(**SIZES, hidden_size=24, num_attention_heads=3, num_hidden_layers=1)
    ).eval(),
}


@pytest.fixture(scope="module")
def open_pair(tmp_path_factory):
    """(transformers' model, ours of the folder that it saved) by name and precision."""
    cache = {}

    def get(name, dtype=torch.float32):
        if (name, dtype) not in cache:
            torch.manual_seed(1)
            theirs = MODELS[name]().to(dtype)
            with torch.no_grad():
                for part, parameter in theirs.named_parameters():  # so that what it says depends on what it reads
                    if "embed_positions" not in part:  # sines, which aren't saved
                        parameter.add_(torch.randn_like(parameter) * 0.1)
            folder = tmp_path_factory.mktemp(name)
            theirs.save_pretrained(folder)
            TOKENIZER.save(folder)
            ours = load(folder, dtype=dtype)[0] if name in ("llama", "gpt2", "t5", "marian") else None
            cache[name, dtype] = (exactly(theirs) if dtype == torch.float64 else theirs), ours, folder
        return cache[name, dtype]

    return get


@torch.no_grad()
def token_losses(model, ids, context, stride):
    """Each token by a forward pass of its own: after what stands between it and the first beginning of a window that is
    near enough."""
    nats = []
    for t in range(1, len(ids)):
        start = max(0, math.ceil((t - context) / stride)) * stride
        logits = model(torch.tensor([ids[start:t]])).logits[0, -1].double()
        nats.append(-float(logits.log_softmax(-1)[ids[t]]))
    return np.array(nats)


@pytest.mark.parametrize("dtype", TIGHT, ids=str)
@pytest.mark.parametrize("stride", [1, 3, 7, 11])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_the_loss_of_a_text_is_transformers_at_any_stride(name, text, stride, dtype, open_pair):
    theirs, ours, _ = open_pair(name, dtype)
    score = score_text(ours, TOKENIZER, TEXTS[text], context=11, stride=stride)
    expected = token_losses(theirs, TOKENIZER.encode(TEXTS[text]), 11, stride)
    assert abs(score.loss - expected.mean()) < TIGHT[dtype]
    assert np.abs(score.nats - expected).max() < 10 * TIGHT[dtype]
    assert math.isclose(score.perplexity, math.exp(score.loss))


@torch.no_grad()
def recipe(model, ids, length, stride):
    """The strided recipe of transformers' documentation, its mean taken over what was really scored."""
    total, count, before = 0.0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + length, len(ids))
        inputs = torch.tensor([ids[begin:end]])
        labels = inputs.clone()
        labels[:, : -(end - before)] = -100
        scored = int((labels[:, 1:] != -100).sum())
        total, count = total + float(model(inputs, labels=labels).loss) * scored, count + scored
        before = end
        if end == len(ids):
            break
    return total / count


@pytest.mark.parametrize("stride", [1, 4, 6, 13])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_it_is_the_strided_recipe(name, stride, open_pair):
    """Whose window has the token in it that is scored last; ours counts those that are read."""
    theirs, ours, _ = open_pair(name)
    ids = TOKENIZER.encode(TEXTS["English"])
    score = score_text(ours, TOKENIZER, TEXTS["English"], context=13, stride=stride)
    assert abs(score.loss - recipe(theirs, ids, 14, stride)) < 1e-6


@pytest.mark.parametrize("context", [1, 5, 22, 23])
def test_a_stride_as_long_as_the_context_is_plain_chunks(context, open_pair):
    _, ours, _ = open_pair("gpt2", torch.float64)
    ids = torch.tensor(TOKENIZER.encode(TEXTS["English"]))
    chunks = [(ids[i : i + context], ids[i + 1 : i + 1 + context]) for i in range(0, len(ids) - 1, context)]
    with torch.no_grad():
        expected = [F.cross_entropy(ours(x[None, : len(y)])[0], y, reduction="none") for x, y in chunks]
    score = score_text(ours, TOKENIZER, TEXTS["English"], context=context, stride=context)
    assert score.windows == len(chunks)
    np.testing.assert_allclose(score.nats, torch.cat(expected).numpy(), atol=1e-12)


@pytest.mark.parametrize("stride", [None, 1, 23])
def test_a_text_that_fits_takes_a_single_forward_pass(stride, open_pair, monkeypatch):
    _, ours, _ = open_pair("llama", torch.float64)
    text = TEXTS["English"][:24]  # 23 are read
    ids = torch.tensor([TOKENIZER.encode(text)])
    calls, decode = [], ours.decode
    monkeypatch.setattr(ours, "decode", lambda *inputs, **more: calls.append(1) or decode(*inputs, **more))
    score = score_text(ours, TOKENIZER, text, stride=stride)
    assert (len(calls), score.windows, len(score.nats)) == (1, 1, 23)
    with torch.no_grad():
        whole = F.cross_entropy(ours(ids[:, :-1])[0], ids[0, 1:])
    assert abs(score.loss - float(whole)) < 1e-12


@given(tokens=st.integers(0, 60), context=st.integers(1, 20), data=st.data())
def test_each_token_is_scored_once_after_the_longest_context_that_fits(tokens, context, data):
    stride = data.draw(st.integers(1, context))
    all_windows = list(windows(tokens, context, stride))
    scored = [(t, t - window.start) for window in all_windows for t in range(window.first, window.end + 1)]
    assert [t for t, _ in scored] == list(range(1, tokens))
    for t, behind in scored:
        assert behind == t - max(0, math.ceil((t - context) / stride)) * stride
        assert min(t, context - stride + 1) <= behind <= context


def test_windows_are_read_together_and_cost_the_same_alone(open_pair, monkeypatch):
    _, ours, _ = open_pair("llama", torch.float64)
    together = score_text(ours, TOKENIZER, TEXTS["English"], context=5, stride=2)
    monkeypatch.setattr(text_metrics, "TOKENS", 1)
    alone = score_text(ours, TOKENIZER, TEXTS["English"], context=5, stride=2)
    np.testing.assert_allclose(together.nats, alone.nats, atol=1e-12)


def test_only_what_is_scored_has_logits_and_never_many_at_once(open_pair, monkeypatch):
    _, ours, _ = open_pair("llama")
    monkeypatch.setattr(word_loss, "LOGITS", 4 * TOKENIZER.vocab)
    rows, softmax = [], torch.softmax
    monkeypatch.setattr(
        torch, "softmax", lambda logits, *more, **options: rows.append(len(logits)) or softmax(logits, *more, **options)
    )
    score = score_text(ours, TOKENIZER, TEXTS["English"] * 3, context=16, stride=3)
    assert max(rows) <= 4 and sum(rows) == len(score.nats)


@pytest.mark.parametrize("name", ["gemma2"])
def test_a_model_of_transformers_has_its_own_losses(name, open_pair):
    theirs, _, folder = open_pair(name)
    model, tokenizer = open_any(folder, lm_head=True)
    score = score_text(model, tokenizer, TEXTS["English"], context=9, stride=4)
    np.testing.assert_allclose(score.nats, token_losses(theirs, TOKENIZER.encode(TEXTS["English"]), 9, 4), atol=1e-5)


PAIRS = [
    (1, "the cat", "猫"),
    (2, "a", "b c d e f g h"),
    (4, "sat on the mat, tired", "x"),
    (5, "我", "me, myself and I"),
    (9, "b", "b"),
]


def use_small_batches(monkeypatch):
    """So that a few pairs make several batches."""
    monkeypatch.setattr(batching, "WINDOW", 4)
    monkeypatch.setattr(batching, "ROWS", 2)


@pytest.mark.parametrize("dtype", TIGHT, ids=str)
@pytest.mark.parametrize("name", ["t5", "marian"])
def test_the_loss_of_pairs_is_transformers(name, dtype, open_pair, monkeypatch):
    use_small_batches(monkeypatch)
    theirs, ours, _ = open_pair(name, dtype)
    tokenizer = load(open_pair(name, dtype)[2])[1]
    score = score_pairs(ours, tokenizer, PAIRS, most=6)
    total = count = 0
    for pair, (line, source, target) in zip(score.pairs, PAIRS, strict=True):
        assert (pair.line, pair.source, pair.target) == (line, source, target)
        labels = torch.tensor([[*TOKENIZER.encode(target), EOS]])
        with torch.no_grad():
            expected = float(theirs(torch.tensor([[*TOKENIZER.encode(source), EOS]]), labels=labels).loss)
        assert len(pair.nats) == labels.numel() and abs(pair.loss - expected) < 10 * TIGHT[dtype]
        total, count = total + expected * labels.numel(), count + labels.numel()
    assert abs(score.loss - total / count) < TIGHT[dtype]
    assert score.n_bytes == sum(len(target.encode()) for _, _, target in PAIRS)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", ["t5", "marian", "pegasus"])
def test_translations_are_those_of_transformers(name, width, open_pair, monkeypatch):
    use_small_batches(monkeypatch)
    theirs, _, folder = open_pair(name)
    model, tokenizer = open_any(folder, lm_head=True)
    assert isinstance(model, Transformer) == (name != "pegasus")
    score = score_pairs(model, tokenizer, PAIRS, width=width, most=6)
    for pair in score.pairs:
        ids = torch.tensor([[*TOKENIZER.encode(pair.source), EOS]])
        ids_out = theirs.generate(ids, num_beams=width, do_sample=False, max_new_tokens=6)[0].tolist()[1:]
        assert pair.translation == TOKENIZER.decode(ids_out[: ids_out.index(EOS)] if EOS in ids_out else ids_out)
    translations, references = [pair.translation for pair in score.pairs], [pair.target for pair in score.pairs]
    assert score.bleu.score == sacrebleu.corpus_bleu(translations, [references]).score
    assert score.chrf.score == sacrebleu.corpus_chrf(translations, [references]).score


def test_pairs_of_a_model_that_only_transformers_reads(open_pair, monkeypatch):
    use_small_batches(monkeypatch)
    theirs, _, folder = open_pair("pegasus")
    score = score_pairs(*open_any(folder, lm_head=True), PAIRS, most=2)
    for pair in score.pairs:
        labels = torch.tensor([[*TOKENIZER.encode(pair.target), EOS]])
        with torch.no_grad():
            expected = theirs(torch.tensor([[*TOKENIZER.encode(pair.source), EOS]]), labels=labels).loss
        assert abs(pair.loss - float(expected)) < 1e-5


ENGLISH = (["the cat sat on a mat", "it was tired", ""], ["the cat sat on the mat", "it was tired.", "then it slept"])
CHINESE = (["猫坐在垫子上。", "它累了"], ["猫坐在了垫子上。", "它很累，所以睡了"])


@pytest.mark.parametrize(("strings", "words"), [(ENGLISH, "13a"), (CHINESE, "zh")], ids=["English", "Chinese"])
def test_bleu_and_chrf_are_sacrebleu_s_own(strings, words):
    translations, references = strings
    bleu, chrf = metrics(translations, references)
    assert bleu.score == sacrebleu.corpus_bleu(translations, [references], tokenize=words).score > 0
    assert chrf.score == sacrebleu.corpus_chrf(translations, [references]).score > 0
    assert f"tok:{words}" in bleu.signature and sacrebleu.__version__ in chrf.signature


def test_without_sacrebleu_the_rest_is_measured_and_the_command_named(open_pair, monkeypatch):
    assert without_metrics() is None
    for name in ("sacrebleu", "sacrebleu.metrics"):
        monkeypatch.setitem(sys.modules, name, None)
    _, ours, folder = open_pair("t5")
    score = score_pairs(ours, load(folder)[1], PAIRS[:2], most=2)
    assert (score.bleu, score.chrf) == (None, None) and score.loss > 0
    assert "pip install sacrebleu" in str(without_metrics())


def small(tokenizer, **more):
    torch.manual_seed(0)
    return Transformer(Config(**dict(vocab=tokenizer.vocab, width=16, n_layer=1, n_head=2, context=12) | more)).eval()


def test_bits_per_byte_are_of_the_text_and_not_of_its_tokens():
    """A model that knows nothing pays log₂ of its vocabulary for each token, however much of the text that spells."""
    text = "人工智能 ai"
    for tokenizer, first_bytes in ((TOKENIZER, 1), (Characters.make(text, special=["unk"]), None)):
        model = small(tokenizer)
        for parameter in model.parameters():
            parameter.data.zero_()
        score = score_text(model, tokenizer, text)
        expected_bytes = len(text[1:].encode()) if first_bytes is None else len(text.encode()) - first_bytes
        assert score.n_bytes == expected_bytes  # the first token has nothing before it
        assert math.isclose(
            score.bits_per_byte, len(score.nats) * math.log2(tokenizer.vocab) / expected_bytes, rel_tol=1e-6
        )


def test_what_the_tokenizer_puts_before_a_text_is_read_and_takes_no_byte_away(tmp_path):
    tokenizer = Bytes.make(special=["bos"])
    from tokenizers.processors import TemplateProcessing

    tokenizer.library.post_processor = TemplateProcessing(
        single="[BOS] $A", special_tokens=[("[BOS]", int(tokenizer.bos))]
    )
    score = score_text(small(tokenizer), tokenizer, "abc")
    assert score.ids == (tokenizer.bos, *b"abc") and len(score.nats) == score.n_bytes == 3


def test_unknown_letters_are_reported():
    tokenizer = Characters.make("abc", special=["unk"])
    with pytest.warns(Notice, match="2 of 5 tokens are unknown"):
        score_text(small(tokenizer), tokenizer, "abxyc")


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("", {}, "has 0 tokens"),
        ("a", {}, "has 1 tokens"),
        ("a cat", dict(context=4, stride=5), "the stride is 5 and the context 4"),
        ("a cat", dict(stride=0), "the stride is 0"),
        ("a cat", dict(context=0), "context is 0"),
        ("a cat sat on a mat", dict(context=13), "learned 12 positions"),
    ],
)
def test_unscorable_texts_are_refused(text, more, message):
    with pytest.raises(Problem, match=message):
        score_text(small(TOKENIZER, position="learned"), TOKENIZER, text, **more)


def test_the_wrong_kind_of_model_is_refused(open_pair):
    encoder, both = small(TOKENIZER, kind="encoder"), small(TOKENIZER, kind="encoder-decoder")
    with pytest.raises(Problem, match="aren't defined for it"):
        score_text(encoder, TOKENIZER, "a cat")
    with pytest.raises(Problem, match="--pairs"):
        score_text(both, TOKENIZER, "a cat")
    for model, kind in ((encoder, "encoder"), (small(TOKENIZER), "decoder")):
        with pytest.raises(Problem, match=f"of kind {kind} "):
            score_pairs(model, TOKENIZER, PAIRS)
    with pytest.raises(Problem, match="gives states, not words"):
        score_text(small(TOKENIZER, kind="encoder", head="none"), TOKENIZER, "a cat")


def test_an_encoder_of_transformers_is_recognized_by_its_outputs(open_pair):
    """ElectraForCausalLM is loaded as a causal model and looks ahead all the same, unless its config says is_decoder."""
    model, tokenizer = open_any(open_pair("electra")[2], lm_head=True)
    with pytest.raises(Problem, match="aren't defined for it"):
        score_text(model, tokenizer, "a cat")


def test_too_long_pairs_are_reported_and_the_others_scored():
    model = small(TOKENIZER, kind="encoder-decoder", position="learned")
    pairs = [(3, "a", "b"), (4, "a" * 30, "b"), (6, "a", "b" * 12), (7, "c", "d")]
    score = score_pairs(model, TOKENIZER, pairs, most=3)
    assert [pair.line for pair in score.pairs] == [3, 7]
    assert [line for line, _ in score.problems] == [4, 6] and "31 tokens" in str(score.problems[0][1])
    with pytest.raises(Problem, match="31 tokens"):
        score_pairs(model, TOKENIZER, pairs[1:2])
