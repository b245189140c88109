"""What a generation_config.json says is obeyed, token for token as transformers does, or named as not obeyed."""

import json
import warnings

import pytest
from transformers import GenerationConfig

from qkv.formats import model_files
from qkv.formats.hf_export import export
from qkv.generation.beam_search import beam
from qkv.generation.decoding import generate
from qkv.i18n import Notice
from qkv.text import Bytes, generation_defaults, load
from tests.formats.test_families import PAD, TRANSLATORS, WILD, read, texts, theirs  # noqa: F401
from tests.formats.test_model_files import folder_of

RULES = {
    "forced first": dict(forced_bos_token_id=7),
    "forced last": dict(forced_eos_token_id=2),
    "forced last, of two": dict(forced_eos_token_id=[5, 2]),
    "forced first and last": dict(forced_bos_token_id=7, forced_eos_token_id=2),
    "least length": dict(min_length=8),
    "least new": dict(min_new_tokens=7),
    "suppressed": dict(suppress_tokens=[*range(3, 20)]),
    "suppressed at first": dict(begin_suppress_tokens=[*range(3, 24)]),
    "suppressed after what is forced": dict(forced_bos_token_id=7, begin_suppress_tokens=[*range(3, 24)]),
    "bad words": dict(bad_words_ids=[[9], [12], [2], *([a, b] for a in range(3, 30) for b in range(3, 20))]),
    "no pair twice": dict(no_repeat_ngram_size=2),
    "no token twice": dict(no_repeat_ngram_size=1),
    "no three twice": dict(no_repeat_ngram_size=3),
    "nothing of the source": dict(encoder_no_repeat_ngram_size=1),
    "no pair of the source": dict(encoder_no_repeat_ngram_size=2),
    "repetition": dict(repetition_penalty=1.8),
    "a likelier end": dict(exponential_decay_length_penalty=[2, 1.6]),
    "a likelier end at once": dict(exponential_decay_length_penalty=[0, 4.0]),
    "the end at once": dict(exponential_decay_length_penalty=[0, 1e30]),
    "many": dict(
        no_repeat_ngram_size=2, repetition_penalty=1.3, min_length=5, suppress_tokens=[4], forced_eos_token_id=2
    ),
}
BEAMS = {
    "three": dict(num_beams=3),
    "long": dict(num_beams=3, length_penalty=2.5),
    "short": dict(num_beams=3, length_penalty=-1.0),
    "stop early": dict(num_beams=4, early_stopping=True),
    "never stop": dict(num_beams=3, early_stopping="never", length_penalty=2.0),
    "never stop, short": dict(num_beams=3, early_stopping="never", length_penalty=-1.0),
}
ENDS = [2, 11, 23]
MOST = 9


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def wanted(name, told, **inputs):
    """What transformers writes after the prompt, without what ends it."""
    model = theirs(name, **WILD)
    model.generation_config = GenerationConfig()  # a BART would be forced to end by its config alone
    told = GenerationConfig(**(dict(num_beams=1, do_sample=False) | told), eos_token_id=ENDS, pad_token_id=PAD)
    told.max_new_tokens = MOST
    prompt = inputs["input_ids"].shape[1] if name not in TRANSLATORS else 1
    if name in TRANSLATORS:
        inputs |= dict(decoder_start_token_id=PAD, use_cache=name.startswith(("bart", "mbart", "marian")))
    rows = model.generate(**inputs, generation_config=told)[:, prompt:].tolist()
    ended = [next((at for at, token in enumerate(row) if token in ENDS), len(row)) for row in rows]
    return [row[:end] for row, end in zip(rows, ended, strict=True)]


def obeying(told):
    found, strange = generation_defaults.read(told, 37)
    assert not strange
    return found


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_obeyed_as_transformers_does(rule, read):  # noqa: F811
    shown = []
    for name in ("llama 2", "mbart"):
        told, model = RULES[rule], read(name, **WILD)
        if name in TRANSLATORS:  # a tied head likes to repeat the last word
            told = dict(repetition_penalty=5.0) | told
        elif "encoder_no_repeat_ngram_size" in told:
            continue
        how = dict(most=MOST, stop=ENDS, repetition_penalty=told.get("repetition_penalty", 1.0))
        for row in texts(name)[0][:2]:
            ids, found = row[None, :10], obeying(told)
            given = dict(prompts=[[PAD]], source=ids) if name in TRANSLATORS else dict(prompts=ids)
            ours = generate(model, **given, **how, habits=found)
            assert ours == wanted(name, told, input_ids=ids), name
            shown.append(ours != generate(model, **given, most=MOST, stop=ENDS))
    assert any(shown), "a rule that never shows proves nothing"


@pytest.mark.parametrize("rule", ["many", "no token twice"])
@pytest.mark.parametrize("search", BEAMS)
def test_a_search_is_obeyed_as_transformers_does(search, rule, read):  # noqa: F811
    told = BEAMS[search] | RULES[rule]
    model, found = read("mbart", **WILD), obeying(told)
    for row in texts("mbart")[0][:2]:
        ours = beam(
            model,
            [[PAD]],
            source=row[None, :10],
            width=found.num_beams,
            most=MOST,
            stop=ENDS,
            length_penalty=1.0 if found.length_penalty is None else found.length_penalty,
            habits=found,
        )
        assert [ours[0][0].tokens] == wanted("mbart", told, input_ids=row[None, :10])


def folder(place, **told):
    Bytes.make(special=["eos", "pad"]).save(place)
    (place / "generation_config.json").write_text(json.dumps(told), encoding="utf-8")
    return place


NAMED = {
    **dict(typical_p=0.5, min_p=0.1, epsilon_cutoff=0.1, eta_cutoff=0.1, top_h=0.4, guidance_scale=2.0),
    **dict(
        sequence_bias={"3": 1.0}, penalty_alpha=0.6, renormalize_logits=True, stop_strings=["x"], diversity_penalty=1.0
    ),
    **dict(encoder_repetition_penalty=2.0, force_words_ids=[[3]], invented=3, forced_bos_token_id=9999, top_k="many"),
    **dict(bad_words_ids=[3], no_repeat_ngram_size=-1, temperature=-1.0, exponential_decay_length_penalty=[1]),
    **dict(num_beams=2**70, length_penalty=1e300),
    **dict(watermarking_config={"a": 1}, num_beam_groups=2, dola_layers="high", max_time=3.0),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_not_obeyed_is_named(name, tmp_path):
    with pytest.warns(Notice, match=f"generation_config.json sets {name} = .*which qkv does not support"):
        load(folder(tmp_path, do_sample=True, **{name: NAMED[name]}))


def test_every_setting_of_transformers_is_obeyed_named_or_silent():
    known = {name for name in vars(GenerationConfig()) if name != "_original_object_hash"}
    assert known <= {*generation_defaults.READERS, *generation_defaults.NEUTRAL, *generation_defaults.IRRELEVANT}, (
        known
        - {
            *generation_defaults.READERS,
            *generation_defaults.NEUTRAL,
        }
    )


@pytest.mark.filterwarnings("error::qkv.i18n.Notice")
def test_defaults_and_what_changes_nothing_are_no_news(tmp_path):
    defaults = GenerationConfig()._get_default_generation_params()
    made = load(folder(tmp_path, **defaults | dict(max_new_tokens=9, typical_p=0.5)))  # nothing is drawn
    assert made.habits.is_unrestricted and made.habits.sampling() == {"temperature": 0.0}


def test_config_json_is_asked_where_there_is_no_generation_config(tmp_path):
    Bytes.make(special=["eos"]).save(tmp_path)
    told = dict(model_type="bart", forced_eos_token_id=256, num_beams=4, hidden_size=9, typical_p=0.5)
    (tmp_path / "config.json").write_text(json.dumps(told), encoding="utf-8")
    assert load(tmp_path).habits == generation_defaults.GenerationDefaults(forced_eos_token_id=(256,), num_beams=4)
    folder(tmp_path, min_length=3)
    assert load(tmp_path).habits == generation_defaults.GenerationDefaults(min_length=3)


def test_the_command_line_draws_as_the_files_say_and_says_so(tmp_path, capsys):
    from qkv.cli import main

    folder_of("llama", tmp_path)
    told = dict(do_sample=True, temperature=0.6, top_p=0.9, repetition_penalty=1.2, suppress_tokens=[32])
    (tmp_path / "generation_config.json").write_text(json.dumps(told), encoding="utf-8")
    ask = ["generate", "the cat", "--model", str(tmp_path), "--most", "5"]
    assert main(ask) == 0
    by_files = capsys.readouterr()
    assert "as the model's files say: temperature 0.6, top-p 0.9, repetition-penalty 1.2" in by_files.err
    assert main([*ask, "--temperature", "0.6", "--top-p", "0.9", "--repetition-penalty", "1.2"]) == 0
    by_options = capsys.readouterr()
    assert by_options.out == by_files.out and "files say" not in by_options.err
    assert main([*ask, "--temperature", "0", "--quiet"]) == 0 and capsys.readouterr().err == ""


def test_an_export_writes_as_its_model_did(tmp_path):
    made = folder_of("llama", tmp_path / "theirs")
    told = dict(no_repeat_ngram_size=2, bad_words_ids=[[3, 4], [5]], num_beams=3, early_stopping=True, do_sample=False)
    (tmp_path / "theirs" / "generation_config.json").write_text(json.dumps(told), encoding="utf-8")
    model, tokenizer = model_files.load(tmp_path / "theirs")
    export(model, tokenizer, tmp_path / "ours")
    assert model_files.load(tmp_path / "ours")[1].habits == tokenizer.habits
    again = type(made).from_pretrained(tmp_path / "ours").generation_config
    assert {name: getattr(again, name) for name in told} == told
