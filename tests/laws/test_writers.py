"""Only qkv.disk.atomic_files writes files: it renames a complete temporary file, or removes it.

The test finds every other call in the package that could write a file.
"""

import ast
import functools
from pathlib import Path

import pytest

import qkv

SOURCE = Path(qkv.__file__).parent
WRITES = set(
    "write_text write_bytes savefig save_file serialize_file savez savez_compressed savetxt tofile to_csv to_json_file "
    "imsave touch mkstemp NamedTemporaryFile TemporaryFile SpooledTemporaryFile copy2 copyfile copyfileobj copymode copytree "
    "symlink_to hardlink_to truncate urlretrieve extractall hf_hub_download snapshot_download save_pretrained FileHandler "
    "rename renames mkfifo sendfile save_model open_memmap".split()
)
SAVING = {  # methods that write if their owner is one of these modules
    "save": {"np", "numpy", "torch", "dcp"},
    "dump": {"json", "pickle", "marshal", "joblib"},
    "copy": {"shutil"},
    "move": {"shutil"},
    "link": {"os"},
    "symlink": {"os"},
    "replace": {"os"},
    "extract": {"archive", "tarfile", "zipfile", "sdist", "wheel"},
}
OPENS = {"open", "fdopen", "ZipFile", "TarFile", "GzipFile", "BZ2File", "LZMAFile", "FileIO"}

# Other calls that may write a file, and why.
ALLOWED = {
    "cli.forget_output open": "the null device",
    "lessons.exercise_folder.Folder.reset replace": "moves a whole file of the learner's, and moves it back",
    "lessons.exercise_folder.Folder._read replace": "moves a whole damaged file out of the way",
    "formats.hf_export.replace_folder rename": "renames whole folders: the counterpart of atomic_write for a folder",
    "library.store.get replace": "renames a whole verified folder into the cache",
    "library.store._verify replace": "keeps a rejected download for the user to look at",
    "draw.figure_canvas._write savefig": "into the file of atomic_write, or one that the caller has opened",
    "library.hub.download hf_hub_download": "into the temporary folder that store.get verifies and renames",
    "tracing.study.ablation.importance open": "appends to a record; a line that was cut short is dropped when it is read",
    "studio.worker.main fdopen": "a pipe",
    "commands.train._is_first_time touch": "an empty file, which marks that a sentence was shown",
    "disk.run_folder.write_flushed open": "writes into a checkpoint's temporary folder, which finish_checkpoint renames",
    "disk.run_folder.finish_checkpoint rename": "renames a whole checkpoint: the counterpart of atomic_write for a folder",
    "process.streams.open_missing_streams open": "the null device, and streams on open descriptors",
    "train.checkpoint.save_shards save": "writes into a checkpoint's temporary folder, which run_folder.finish_checkpoint renames",
    "train.lock._acquire open": "a lock; what is in it is for people to read",
    "train.lock._acquire truncate": "the same",
    "train.loop._metrics_log open": "appends lines; one that was cut short is dropped when it is read",
    "train.loop._record_sample open": "appends samples",
    "library.transfer.Client.download open": "into the temporary folder that store.get verifies and renames",
    "library.transfer.Client._continue truncate": "the same, where the server begins anew",
    "library.transfer._copy open": "the same",
}


def name_of(call):
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_write(call):
    """True if a call could write a file."""
    name = name_of(call)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if name in WRITES:
        return True
    if name in SAVING and isinstance(owner, ast.Name) and owner.id in SAVING[name]:
        return True
    if name == "replace" and owner is not None and len(call.args) == 1 and not call.keywords:
        return True  # str.replace has two arguments, Path.replace has one
    if name == "memmap":  # the default mode writes
        return not any(
            word.arg == "mode" and getattr(word.value, "value", None) in ("r", "c") for word in call.keywords
        )
    if name not in OPENS:
        return False
    if isinstance(owner, ast.Name) and owner.id == "os" and name == "open":
        return any(isinstance(node, ast.Attribute) and node.attr in FLAGS for node in ast.walk(call))
    method = owner is not None and not is_module(owner)
    modes = [*call.args[not method : 2 - method], *(word.value for word in call.keywords if word.arg == "mode")]
    words = [str(mode.value) if isinstance(mode, ast.Constant) else "" if method else "w" for mode in modes]
    return any(set(word) & set("wax+") and set(word) <= set("rwaxbt+:gz2") for word in words)


FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"}


def is_module(owner):
    modules = {"os", "io", "gzip", "bz2", "lzma", "tarfile", "zipfile", "codecs"}
    return isinstance(owner, ast.Name) and owner.id in modules


def write_calls(source, module):
    """Return (`module.function call`, line) of every call in a source file that could write a file."""
    calls, stack = [], [(ast.parse(source), module)]
    while stack:
        node, where = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            where = f"{where}.{node.name}"
        elif isinstance(node, ast.Call) and is_write(node):
            calls.append((f"{where} {name_of(node)}", node.lineno))
        stack += [(child, where) for child in ast.iter_child_nodes(node)]
    return calls


@functools.cache
def package_write_calls():
    """Return the write calls of the whole package."""
    calls = []
    for file in sorted(SOURCE.rglob("*.py")):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        if module != "disk.atomic_files":
            calls += write_calls(file.read_text(encoding="utf-8"), module)
    return calls


def allowing_entry(call):
    """Return the entry of ALLOWED that covers a call, or None."""
    module = call.split(" ")[0]
    parts = module.split(".")
    wide = [f"{'.'.join(parts[:n])} *" for n in range(len(parts), 0, -1)]
    return next((entry for entry in (call, *wide) if entry in ALLOWED), None)


def test_nothing_else_writes_files():
    assert [f"{call} (line {line})" for call, line in package_write_calls() if allowing_entry(call) is None] == []


def test_the_list_has_no_more_than_there_is():
    assert ALLOWED.keys() == {allowing_entry(call) for call, _ in package_write_calls()} - {None}


@pytest.mark.parametrize(
    "line",
    [
        "open(path, 'w')",
        "open(path, mode='ab')",
        "open(path, mode)",
        "path.open('x', encoding='utf-8')",
        "Path(path).open(mode='r+b')",
        "io.open(path, 'w')",
        "gzip.open(path, 'wt')",
        "os.fdopen(number, 'wb')",
        "os.open(path, os.O_RDWR | os.O_CREAT)",
        "path.write_text(text)",
        "(folder / 'a').write_bytes(raw)",
        "figure.savefig(path)",
        "save_file(tensors, path)",
        "safetensors.torch.save_file(tensors, path)",
        "np.save(path, array)",
        "torch.save(tensors, path)",
        "json.dump(values, file)",
        "zipfile.ZipFile(path, 'w')",
        "tarfile.open(path, 'w:gz')",
        "shutil.copy(old, new)",
        "shutil.move(old, new)",
        "os.replace(old, new)",
        "beside.replace(path)",
        "tempfile.mkstemp(dir=folder)",
        "array.tofile(path)",
        "np.memmap(path)",
    ],
)
def test_the_law_finds_a_writer(line):
    assert len(write_calls(f"class A:\n    def method(self):\n        {line}\n", "module")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "open(path)",
        "open(path, 'rb')",
        "path.open()",
        "path.open('rb')",
        "np.memmap(path, mode='r')",
        "wheel.open(name)",
        "zipfile.ZipFile(path)",
        "tarfile.open(path)",
        "os.open(path, os.O_RDONLY)",
        "'a b'.replace('a', 'b')",
        "config.replace(width=3)",
        "tensor.copy_(other)",
        "trace.save(path)",
        "json.dumps(values)",
    ],
)
def test_readers_are_not_reported(line):
    assert write_calls(f"def function():\n    {line}\n", "module") == []
