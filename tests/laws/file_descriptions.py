"""Descriptions of output: folders of runs and exports, one-file pages, frames of the studio."""

import base64
import json
import math
import re
import struct
import zlib

from safetensors import safe_open

from tests.laws.snapshot_files import group_tensors, shape


def tensors_of(file):
    """Return each tensor of a safetensors file with its shape and type."""
    with safe_open(file, "pt") as opened:
        slices = {name: opened.get_slice(name) for name in sorted(opened.keys())}
        return {name: f"{each.get_shape()} {each.get_dtype()}" for name, each in slices.items()}


def describe_files(folder):
    """Describe every file: JSON by its shape, safetensors by metadata and tensors, others by name alone."""
    descriptions = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = re.sub(r"\bpart-\d+", "part-N", file.as_posix())
        if file.suffix == ".safetensors":
            with safe_open(file, "pt") as file_handle:
                meta = {key: parse_json(text) for key, text in (file_handle.metadata() or {}).items()}
            descriptions[name] = {"metadata": shape(meta), "tensors": group_tensors(tensors_of(file))}
        elif file.name == "tokenizer.json":  # the tokenizers library's own format
            descriptions[name] = sorted(json.loads(file.read_text(encoding="utf-8")))
        elif file.suffix == ".json":
            descriptions[name] = shape(json.loads(file.read_text(encoding="utf-8")))
        elif file.suffix == ".jsonl":
            descriptions[name] = shape(*map(json.loads, file.read_text(encoding="utf-8").splitlines()))
        else:
            descriptions[name] = "file"
    return descriptions


def parse_json(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def page_data(page):
    """Describe the data in a page: the header's keys and types, and each block by its arrays or its JSON."""
    embedded = dict(
        re.findall(r'<script type="(?:text/plain|application/json)" id="qkv-([^"]+)">(.*?)</script>', page, re.S)
    )
    header = json.loads(embedded.pop("header"))
    blocks = {}
    for stored in arrays_in(header):
        packed = zlib.decompress(base64.b64decode(embedded[stored["id"]]))
        size = int(re.sub(r"\D", "", stored["dtype"]))
        assert len(packed) == size * math.prod(stored["shape"]), stored
        blocks[stored["id"]] = f"{stored['dtype']} {stored['shape']}, {len(packed)} bytes"
        if stored["id"] == "tokens":
            blocks["tokens"] = shape(json.loads(packed))
    assert embedded.keys() == blocks.keys(), "every block is named in the header"
    return {"header": shape(header), "blocks": blocks}


def arrays_in(value):
    """Yield every {"id", "shape", "dtype"} in the header."""
    if isinstance(value, dict):
        if {"id", "shape", "dtype"} <= value.keys():
            yield value
        else:
            yield from (array for each in value.values() for array in arrays_in(each))
    elif isinstance(value, list):
        yield from (array for each in value for array in arrays_in(each))


def describe_frames(frames):
    """Describe the frames of a response by kind: keys and types, and the type and number of sides of their arrays."""
    kinds = {}
    for content, arrays in frames:
        kinds.setdefault(content["kind"], []).append((content, arrays))
    described = {kind: {"frame": shape(*(content for content, _ in each))} for kind, each in kinds.items()}
    for kind, each in kinds.items():
        if arrays := sorted({" ".join(names) for _, names in each if names}):
            described[kind]["arrays"] = arrays
    return described


def unpack_frames(content):
    """Yield the frames of a response: a length, so many bytes of JSON, and the arrays that its `buffers` describe."""
    at = 0
    while at < len(content):
        (size,) = struct.unpack_from("<I", content, at)
        header = json.loads(content[at + 4 : at + 4 + size])
        at += 4 + size
        names = []
        for buffer in header.pop("buffers"):
            at += int(buffer["dtype"][1:]) * math.prod(buffer["shape"])
            kind = {"f4": "float32", "u1": "uint8", "i4": "int32"}[buffer["dtype"]]
            names.append(f"{kind}[{len(buffer['shape'])}]")
        yield header, names
