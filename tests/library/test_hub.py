"""From hf:owner/name to a model that generates text: the real huggingface_hub against a local hub."""

import os
import re
import socket
import subprocess
import sys

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from qkv.terminal.screen import plain
from tests.selection import slow_except

from . import hub_server as hub

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)


@pytest.fixture(scope="module")
def repositories(tmp_path_factory):
    """Return repositories: a sharded chat model, one with a single weights file and unused files, and some that fail."""
    root = tmp_path_factory.mktemp("hub")
    sharded, single = _chat_model(root / "sharded", "100KB"), _chat_model(root / "single", "5GB")
    assert len(list(sharded.glob("model-*-of-*.safetensors"))) > 1 and (single / "model.safetensors").is_file()
    for name in ("consolidated.safetensors", "pytorch_model.bin", "model.gguf", "run.py", "onnx/model.safetensors"):
        (single / name).parent.mkdir(exist_ok=True)
        (single / name).write_bytes(b"not wanted")
    for name, files in {
        "pickles": ("config.json", "pytorch_model.bin"),
        "adapter": ("adapter_model.safetensors",),
    }.items():
        (root / name).mkdir()
        for file in files:
            (root / name / file).write_bytes(b"{}")
    return {f"owner/{folder.name}": folder for folder in root.iterdir()} | {
        "owner/gated": single,
        "owner/changed": single,
        "owner/cut": sharded,
    }


def _chat_model(folder, shards):
    torch.manual_seed(0)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    library.pre_tokenizer, library.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    library.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    marks = dict(bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=library, chat_template=TEMPLATE, **marks)
    ids = dict(bos_token_id=256, eos_token_id=257, pad_token_id=257)
    sizes = dict(vocab_size=258, hidden_size=64, intermediate_size=96, max_position_embeddings=128)
    sizes |= dict(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **ids)).eval()
    with torch.no_grad():
        model.lm_head.weight.normal_()  # for more than one letter
        model.lm_head.weight[256:] = 0
    model.save_pretrained(folder, max_shard_size=shards)
    tokenizer.save_pretrained(folder)
    assert (folder / "chat_template.jinja").is_file() and (folder / "generation_config.json").is_file()
    return folder


def environment(address, home):
    """Return the environment of a process that uses this hub and no proxy."""
    inherited = {name: os.environ[name] for name in ("PATH", "OMP_NUM_THREADS", "SYSTEMROOT") if name in os.environ}
    own = {"HF_ENDPOINT": address, "QKV_HOME": str(home), "HF_HOME": str(home / "theirs"), "NO_PROXY": "*"}
    return inherited | own


def call(address, home, *arguments):
    """Return what a command prints in its own process."""
    done = subprocess.run(
        [sys.executable, "-m", "qkv", *arguments], capture_output=True, encoding="utf-8", env=environment(address, home)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("warm")
def test_a_sharded_chat_model_is_fetched_and_generates_as_transformers_does(repositories, tmp_path):
    name = "hf:owner/sharded"
    with hub.serving(repositories) as (address, requests):
        output = call(address, tmp_path, "models", "get", name)
        folder = tmp_path / "model" / "hf" / "owner--sharded"
        assert str(folder) in output and f"HEAD /owner/sharded/resolve/{hub.COMMIT}/chat_template.jinja" in requests
        files = {f.name: f.read_bytes() for f in repositories["owner/sharded"].iterdir()}
        assert {f.name: f.read_bytes() for f in folder.iterdir()} == files
        requests.clear()
        assert str(folder) in call(address, tmp_path, "models", "get", name) and not requests, "it is here already"
    # Offline: the fetched files must suffice.
    theirs = transformers.AutoModelForCausalLM.from_pretrained(repositories["owner/sharded"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(repositories["owner/sharded"])
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False
    )
    for verb, prompt, text in (("chat", chat, "Hi"), ("generate", "Hi", "Hi")):
        ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
        more = theirs.generate(**ids, max_new_tokens=12, do_sample=False)[0, ids.input_ids.shape[1] :]
        written = call(address, tmp_path, verb, text, "--model", name, "--most", "12", "--temperature", "0", "--quiet")
        expected = tokenizer.decode(more, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert written == ("Hi" if verb == "generate" else "") + plain(expected) + "\n"


def test_only_files_that_are_read_are_fetched(repositories, tmp_path):
    with hub.serving(repositories) as (address, requests):
        call(address, tmp_path, "models", "get", "hf:owner/single", f"hf:owner/single@{hub.COMMIT}")
    for name in ("owner--single", f"owner--single@{hub.COMMIT}"):
        assert {file.name for file in (tmp_path / "model" / "hf" / name).iterdir()} == {
            *("config.json", "generation_config.json", "model.safetensors"),
            *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
        }
    assert not [
        each for each in requests if "/api/" not in each and re.search(r"\.bin|\.py|onnx|consolidated|gguf", each)
    ]


FAILURES = {
    "nothing": ("the hub has no hf:owner/nothing", "hub 上没有 hf:owner/nothing"),
    "single@v9": ("no revision v9 of hf:owner/single@v9", "没有版本 v9"),
    "gated": ("accept it on the model's page", "请先在模型页面上接受许可"),
    "pickles": ("only pytorch_model.bin: pickled files can run any program", "pickle 文件打开时可以运行任意程序"),
    "adapter": ("has adapter_model.safetensors, but no weights under the names", "没有 qkv 能读的权重文件"),
    "changed": ("chat_template.jinja of hf:owner/changed is not what the hub says", "与 hub 所说的不符（git sha1"),
    "cut": ("the connection broke while hf:owner/cut was being fetched", "下载 hf:owner/cut 时连接中断"),
}


@pytest.mark.parametrize("name", slow_except(["nothing", "gated", "changed", "cut"], FAILURES))
def test_failures_of_the_hub_are_reported_and_leave_nothing(repositories, tmp_path, name):
    changed = {"chat_template.jinja": lambda content: content.replace(b"role", b"evil")}  # of the same size
    with hub.serving(repositories, gated=["owner/gated"], cut=["owner/cut"], changed=changed) as (address, _):
        _fails(address, tmp_path, f"hf:owner/{name}", FAILURES[name])


def test_a_missing_network_is_reported(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # reserved, but nothing listens
        messages = ("the hub cannot be reached", "连不上 hub")
        _fails(f"http://127.0.0.1:{free.getsockname()[1]}", tmp_path, "hf:owner/single", messages)


# Both languages in one process, since imports take most of the time; retries don't wait.
SCRIPT = """
import sys, time
from qkv.cli import main
time.sleep = lambda seconds: None
sys.exit(max(main(["models", "get", sys.argv[1], "--lang", lang]) for lang in ("en", "zh")))
"""


def _fails(address, home, name, messages):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name], capture_output=True, encoding="utf-8", env=environment(address, home)
    )
    english, chinese = done.stderr.splitlines()
    assert done.returncode == 2 and done.stdout == "" and messages[0] in english and messages[1] in chinese, done.stderr
    files = [f for f in home.rglob("*") if f.is_file() and "theirs" not in f.parts]  # what the library keeps is its own
    assert files == []
