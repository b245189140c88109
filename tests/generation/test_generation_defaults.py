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


def expected_tokens(name, settings, **inputs):
    """What transformers writes after the prompt, without what ends it."""
    model = theirs(name, **WILD)
    model.generation_config = GenerationConfig()  # a BART would be forced to end by its config alone
    settings = GenerationConfig(**(dict(num_beams=1, do_sample=False) | settings), eos_token_id=ENDS, pad_token_id=PAD)
    settings.max_new_tokens = MOST
    prompt = inputs["input_ids"].shape[1] if name not in TRANSLATORS else 1
    if name in TRANSLATORS:
        inputs |= dict(decoder_start_token_id=PAD, use_cache=name.startswith(("bart", "mbart", "marian")))
    rows = model.generate(**inputs, generation_config=settings)[:, prompt:].tolist()
    ended = [next((at for at, token in enumerate(row) if token in ENDS), len(row)) for row in rows]
    return [row[:end] for row, end in zip(rows, ended, strict=True)]


def read_settings(settings):
    habits, unsupported = generation_defaults.read(settings, 37)
    assert not unsupported
    return habits


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_obeyed_as_transformers_does(rule, read):  # noqa: F811
    differs = []
    for name in ("llama 2", "mbart"):
        settings, model = RULES[rule], read(name, **WILD)
        if name in TRANSLATORS:  # a tied head likes to repeat the last word
            settings = dict(repetition_penalty=5.0) | settings
        elif "encoder_no_repeat_ngram_size" in settings:
            continue
        options = dict(most=MOST, stop=ENDS, repetition_penalty=settings.get("repetition_penalty", 1.0))
        for row in texts(name)[0][:2]:
            ids, habits = row[None, :10], read_settings(settings)
            inputs = dict(prompts=[[PAD]], source=ids) if name in TRANSLATORS else dict(prompts=ids)
            ours = generate(model, **inputs, **options, habits=habits)
            assert ours == expected_tokens(name, settings, input_ids=ids), name
            differs.append(ours != generate(model, **inputs, most=MOST, stop=ENDS))
    assert any(differs), "a rule that never shows proves nothing"


@pytest.mark.parametrize("rule", ["many", "no token twice"])
@pytest.mark.parametrize("search", BEAMS)
def test_a_search_is_obeyed_as_transformers_does(search, rule, read):  # noqa: F811
    settings = BEAMS[search] | RULES[rule]
    model, habits = read("mbart", **WILD), read_settings(settings)
    for row in texts("mbart")[0][:2]:
        ours = beam(
            model,
            [[PAD]],
            source=row[None, :10],
            width=habits.num_beams,
            most=MOST,
            stop=ENDS,
            length_penalty=1.0 if habits.length_penalty is None else habits.length_penalty,
            habits=habits,
        )
        assert [ours[0][0].tokens] == expected_tokens("mbart", settings, input_ids=row[None, :10])


def folder(path, **settings):
    Bytes.make(special=["eos", "pad"]).save(path)
    (path / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return path


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


def test_every_setting_of_transformers_is_supported_reported_or_silent():
    settings = {name for name in vars(GenerationConfig()) if name != "_original_object_hash"}
    assert settings <= {*generation_defaults.READERS, *generation_defaults.NEUTRAL, *generation_defaults.IRRELEVANT}, (
        settings
        - {
            *generation_defaults.READERS,
            *generation_defaults.NEUTRAL,
        }
    )


@pytest.mark.filterwarnings("error::qkv.i18n.Notice")
def test_defaults_and_what_changes_nothing_are_no_news(tmp_path):
    defaults = GenerationConfig()._get_default_generation_params()
    tokenizer = load(folder(tmp_path, **defaults | dict(max_new_tokens=9, typical_p=0.5)))  # nothing is drawn
    assert tokenizer.habits.is_unrestricted and tokenizer.habits.sampling() == {"temperature": 0.0}


def test_config_json_is_the_fallback(tmp_path):
    Bytes.make(special=["eos"]).save(tmp_path)
    settings = dict(model_type="bart", forced_eos_token_id=256, num_beams=4, hidden_size=9, typical_p=0.5)
    (tmp_path / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert load(tmp_path).habits == generation_defaults.GenerationDefaults(forced_eos_token_id=(256,), num_beams=4)
    folder(tmp_path, min_length=3)
    assert load(tmp_path).habits == generation_defaults.GenerationDefaults(min_length=3)


def test_the_command_line_uses_and_prints_the_files_settings(tmp_path, capsys):
    from qkv.cli import main

    folder_of("llama", tmp_path)
    settings = dict(do_sample=True, temperature=0.6, top_p=0.9, repetition_penalty=1.2, suppress_tokens=[32])
    (tmp_path / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    command = ["generate", "the cat", "--model", str(tmp_path), "--most", "5"]
    assert main(command) == 0
    by_files = capsys.readouterr()
    assert "as the model's files say: temperature 0.6, top-p 0.9, repetition-penalty 1.2" in by_files.err
    assert main([*command, "--temperature", "0.6", "--top-p", "0.9", "--repetition-penalty", "1.2"]) == 0
    by_options = capsys.readouterr()
    assert by_options.out == by_files.out and "files say" not in by_options.err
    assert main([*command, "--temperature", "0", "--quiet"]) == 0 and capsys.readouterr().err == ""


def test_an_export_writes_as_its_model_did(tmp_path):
    original = folder_of("llama", tmp_path / "theirs")
    settings = dict(
        no_repeat_ngram_size=2, bad_words_ids=[[3, 4], [5]], num_beams=3, early_stopping=True, do_sample=False
    )
    (tmp_path / "theirs" / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    model, tokenizer = model_files.load(tmp_path / "theirs")
    export(model, tokenizer, tmp_path / "ours")
    assert model_files.load(tmp_path / "ours")[1].habits == tokenizer.habits
    again = type(original).from_pretrained(tmp_path / "ours").generation_config
    assert {name: getattr(again, name) for name in settings} == settings
