"""Models of the Hugging Face hub, under names that begin with hf: their weights, configuration and tokenizer.

Only safetensors, GGUF, JSON, text, SentencePiece and chat template files are fetched. Pickles are not: they can run
any code when they are opened. Of the safetensors files only the standard names are fetched, since repositories often
have the same weights again under other names. Each file is verified with the hash that the hub lists (sha256 of large
files, git's blob sha1 of the others) before the repository is moved into the cache.
"""

import hashlib
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Protocol

from ..disk.bounded_reading import folder_size, is_plain
from ..i18n import Problem, _, all_of, pip_install, quoted

PREFIX = "hf:"
WEIGHT_FILES = ("model.safetensors", "model-*-of-*.safetensors")  # names of weights that qkv reads
# Configurations, vocabularies, SentencePiece models and chat templates.
COMPANIONS = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja")
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
NAME = re.compile(r"hf:(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+)(/(?P<file>[\w.-]+\.gguf))?(@(?P<revision>[\w./-]+))?")

# Classes of exceptions or HTTP statuses -> what they mean; the first match counts.
FAILURES = {
    "GatedRepoError": _(
        "the hub requires that you accept the licence of {name}: accept it on the model's page, log in with  hf auth "
        "login , then run  qkv models get {name}  again"
    ),
    "RevisionNotFoundError": _("the hub has no revision {revision} of {name}: leave out what follows @ for the newest"),
    "RepositoryNotFoundError": _(
        "the hub has no {name}, or it is private: check the name; for a private model log in with  hf auth login"
    ),
    "401 403": _("the hub refused access to {name} ({why}): log in again with  hf auth login"),
    "429 5xx": _("the hub can't serve {name} at the moment ({why}): try again in a few minutes"),
    "RemoteProtocolError ReadError ReadTimeout IncompleteRead": _(
        "the connection broke while {name} was being fetched ({why}): the partial download was removed; run  qkv models "
        "get {name}  again"
    ),
    "OfflineModeIsEnabled TransportError ConnectTimeout ConnectionError TimeoutError": _(
        "{name} is not in the cache and the hub cannot be reached ({why}): go online and run  qkv models get {name}  "
        "again, or give the folder of a copy you have"
    ),
}
OTHER_FAILURE = _("{name} could not be fetched from the hub: {why}")


@dataclass(frozen=True)
class Repository:
    """A repository of the hub: hf:owner/name, optionally with a revision or one of its GGUF files."""

    name: str
    id: str
    file: str | None
    revision: str | None
    folder: Path
    kind: str = "model"
    layout: str = ""
    licence: str = "see its page"
    credit: str = ""
    note: str = _("from the Hugging Face hub")

    @classmethod
    def parse(cls, name: str, home: Path) -> "Repository":
        """Return the repository of a name.

        >>> Repository.parse("hf:owner/tiny@v1", Path("cache")).folder.as_posix()
        'cache/model/hf/owner--tiny@v1'
        """
        match, folder_name = NAME.fullmatch(name), name.removeprefix(PREFIX).replace("/", "--")
        if (
            not match
            or not is_plain(folder_name)
            or any(set(part) <= {"."} or ".." in part for part in match.groupdict().values() if part)
        ):
            raise Problem(
                "{name} is not the name of a hub repository: write hf:owner/name, hf:owner/name@revision, or, for one file "
                "of several, hf:owner/name/FILE.gguf",
                name=name,
            )
        repository = f"{match['owner']}/{match['repo']}"
        return cls(name, repository, match["file"], match["revision"], home / "model" / "hf" / folder_name)

    @property
    def path(self) -> Path | None:
        """The folder in the cache, or its only GGUF file; None if it is not cached."""
        if not self.folder.is_dir():
            return None
        files = sorted(self.folder.glob("*.gguf"))
        return files[0] if len(files) == 1 and not any(self.folder.glob("*.safetensors")) else self.folder

    @property
    def size(self) -> int:
        """Bytes in the cache."""
        return folder_size(self.folder)


def cached_repositories(home: Path) -> list[Repository]:
    """Return the repositories in the cache."""
    repositories = []
    for folder in sorted((home / "model" / "hf").glob("*--*")):
        with suppress(Problem):  # not a folder of ours
            repositories.append(Repository.parse(PREFIX + folder.name.replace("--", "/"), home))
    return [repository for repository in repositories if repository.path]


class HubFile(Protocol):
    """A file that the hub lists. Large files also have `lfs.sha256`, other files `blob_id`."""

    rfilename: str
    size: int | None


class HubApi(Protocol):
    """The methods of huggingface_hub.HfApi that are used."""

    def model_info(self, repo_id: str, /, *, revision: str | None, files_metadata: bool) -> Any: ...
    def hf_hub_download(self, repo_id: str, filename: str, /, *, revision: str, local_dir: Path) -> object: ...


def download(
    repository: Repository, out: Path, progress: Callable[[int, int], None], api: HubApi | None = None
) -> None:
    """Fetch the files of a repository that qkv reads into a folder, and verify their hashes."""
    api = api or _library(repository)
    try:
        info = api.model_info(repository.id, revision=repository.revision, files_metadata=True)
        files = choose(repository, {file.rfilename: file for file in info.siblings})
        total = sum(file.size or 0 for file in files)
        with _report_growth(out, lambda done: progress(min(done, total), total)):
            for file in files:
                # Fetch the listed commit, in case the repository changes meanwhile.
                api.hf_hub_download(repository.id, file.rfilename, revision=info.sha, local_dir=out)
    except Problem:
        raise
    except Exception as error:  # errors of huggingface_hub or of its HTTP library
        raise _explain(repository, error) from error
    shutil.rmtree(out / ".cache", ignore_errors=True)  # of huggingface_hub
    for file in files:
        _verify(repository, out / file.rfilename, file)
    progress(total, total)


def choose(repository: Repository, files: dict[str, HubFile]) -> list[HubFile]:
    """Return the files to fetch: top-level weights, safetensors rather than GGUF, never pickles."""
    names = sorted(name for name in files if "/" not in name)
    ggufs = _matching(names, "*.gguf")
    if repository.file is not None:
        if repository.file not in ggufs:
            raise Problem(
                "{name} has no file {file}: it has {files}",
                name=repository.name,
                file=repository.file,
                files=all_of(ggufs or names),
            )
        return [files[repository.file]]
    weights = _matching(names, WEIGHT_FILES[0]) or _matching(names, WEIGHT_FILES[1]) or ggufs
    if not weights:
        if others := _matching(names, "*.safetensors"):
            raise Problem(
                "{name} has {found}, but no weights under the names that are read ({wanted}): it is perhaps an "
                "adapter for another model, or for another program",
                name=repository.name,
                found=all_of(others),
                wanted=all_of(WEIGHT_FILES),
            )
        if pickled := _matching(names, *PICKLED):
            raise Problem(
                "{name} has no safetensors or GGUF weights, only {found}: pickled files can run any program when they "
                "are opened, so qkv does not fetch them. Convert them once where you trust them: load with "
                "transformers, then save_pretrained(folder)",
                name=repository.name,
                found=all_of(pickled),
            )
        raise Problem(
            "{name} has no weights that qkv reads (safetensors or GGUF): it is perhaps a data set, or for another "
            "program",
            name=repository.name,
        )
    if weights == ggufs and len(ggufs) > 1:
        raise Problem(
            "{name} has several GGUF files, say which: {files}",
            name=repository.name,
            files=all_of(f"hf:{repository.id}/{g}" for g in ggufs),
        )
    return [files[name] for name in (*_matching(names, *COMPANIONS), *weights)]


def _matching(names: list[str], *patterns: str) -> list[str]:
    return [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]


def _verify(repository: Repository, file: Path, stated: HubFile) -> None:
    """Raise if a file does not have the size and hash that the hub lists."""
    if not file.is_file() or file.is_symlink() or (stated.size is not None and file.stat().st_size != stated.size):
        raise Problem(
            "{file} of {name} did not arrive whole and was not used: try again", name=repository.name, file=file.name
        )
    if large := getattr(stated, "lfs", None):
        kind, expected = "sha256", getattr(large, "sha256", None)
    else:
        kind, expected = "git sha1", getattr(stated, "blob_id", None)
    if not expected:
        raise Problem(
            "the hub lists no hash of {file} of {name}, so the download can't be verified: it was not used",
            name=repository.name,
            file=file.name,
        )
    digest = hashlib.sha256() if kind == "sha256" else hashlib.sha1(usedforsecurity=False)
    if kind == "git sha1":
        digest.update(b"blob %d\0" % file.stat().st_size)
    with file.open("rb") as opened:
        hashlib.file_digest(opened, lambda: digest)
    if (actual := digest.hexdigest()) != expected:
        raise Problem(
            "{file} of {name} is not what the hub says it is ({kind} {found}…, expected {expected}…): it was not used; try "
            "again",
            name=repository.name,
            file=file.name,
            kind=kind,
            found=actual[:12],
            expected=expected[:12],
        )


def _library(repository: Repository) -> HubApi:
    try:
        import huggingface_hub
        from huggingface_hub import utils  # a submodule that must be imported
    except ImportError:
        raise Problem(
            "fetching {name} from the Hugging Face hub needs its library: {command}",
            name=repository.name,
            command=pip_install("huggingface_hub"),
        ) from None
    utils.disable_progress_bars()  # qkv shows its own
    utils.logging.set_verbosity_error()  # and reports errors itself
    return huggingface_hub.HfApi()


def _explain(repository: Repository, error: BaseException) -> Problem:
    """Return what an error of the hub means, by its classes and HTTP status, else with its own text."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:  # the cause may be more specific
        chain.append(cause)
    names = {kind.__name__ for each in chain for kind in type(each).__mro__}
    statuses = {getattr(getattr(each, "response", None), "status_code", 0) for each in chain}
    names |= {"5xx" if status >= 500 else str(status) for status in statuses}
    first_line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    sentence = next((sentence for causes, sentence in FAILURES.items() if names & set(causes.split())), OTHER_FAILURE)
    return Problem(sentence, name=repository.name, why=quoted(first_line), revision=repository.revision)


@contextmanager
def _report_growth(folder: Path, report: Callable[[int], None]) -> Iterator[None]:
    """Call `report` with the size of a folder every 0.2 s during the `with` block."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            report(folder_size(folder))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
