"""Damage to files. Every function takes the valid bytes and a `random.Random`, and returns damaged bytes."""

import copy
import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Setting = tuple[bytes, int, bytes]  # key, type, value as GGUF writes it
SIZES = dict(BOOL=1, U8=1, I8=1, F8_E4M3=1, I16=2, F16=2, BF16=2, I32=4, F32=4, I64=8, F64=8)  # bytes of a number
NUMBERS = [0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**33, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
WORDS = [
    *("", " ", "\0", "\ud800", "x", "�", "\x1b[2J", "-1", "nan", "/dev/zero", "../../x", "..", "a/b", "C:\\x"),
    *("x" * 1000, "x" * 1_000_000, "人" * 70_000, "{" * 50, "(" * 500, "[MASK]", "</s>", "<0x41>", "▁", "====", "q80="),
]


def random_value(dice: Random) -> Any:
    """Return a value that a reader may not expect."""
    return dice.choice(
        [
            lambda: dice.choice([None, True, False]),
            lambda: dice.choice([-1, -(2**63), 10**12, 10**40, 10**400, *NUMBERS]),
            lambda: dice.choice([-0.5, 0.1, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf]),
            lambda: dice.choice(WORDS),
            lambda: dice.choice(WORDS),
            lambda: dice.choice([[], {}, [None], [[]], {"": {}}, [1, "a", None], {"a": 1}, [0] * 1000, ["x"] * 3]),
            lambda: nest(dice.choice([50, 400])),
        ]
    )()


def nest(depth: int) -> Any:
    """Return lists nested to this depth."""
    nested_list: Any = []
    for _ in range(depth):
        nested_list = [nested_list]
    return nested_list


def entries_of(root: Any, most: int = 20_000) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a JSON tree; for long lists, only the first and last keys."""
    entries: list[tuple[Any, Any]] = []
    queue = [root]
    for holder in queue:
        keys: Iterator[Any] | list[Any] = []
        if isinstance(holder, dict):
            keys = list(holder)[:200]
        elif isinstance(holder, list):
            keys = [*range(min(len(holder), 50)), *range(max(len(holder) - 5, 50), len(holder))]
        for key in keys:
            entries.append((holder, key))
            queue.append(holder[key])
        if len(entries) > most:
            break
    return entries


def damage_tree(good: Any, dice: Random) -> Any:
    """Return a JSON tree with one to four changes."""
    damaged = copy.deepcopy(good)
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        entries = entries_of(damaged)
        if not entries:
            return random_value(dice)
        # Half of the time a top-level key, since most keys are in vocabularies.
        top = [(holder, key) for holder, key in entries if holder is damaged]
        holder, key = dice.choice(top if dice.random() < 0.5 else entries)
        action = dice.choice("value value value value delete rename double swap type near".split())
        if action == "value":
            holder[key] = random_value(dice)
        elif action == "delete":
            del holder[key]
        elif action == "rename" and isinstance(holder, dict):
            holder[str(dice.choice([*WORDS, *holder]))] = holder.pop(key)
        elif action == "double" and isinstance(holder, list):
            holder[key:key] = [holder[key]] * dice.choice([1, 2, 1000])
        elif action == "swap":
            other, where = dice.choice(entries)
            if not inside(holder[key], other) and not inside(other[where], holder):
                holder[key], other[where] = other[where], holder[key]
        elif action == "type":
            old = holder[key]
            holder[key] = dice.choice([[old], {"a": old}, str(old)[:1000], bool(old)])
        elif isinstance(holder[key], int | float):
            holder[key] = dice.choice([holder[key] + 1, holder[key] - 1, -holder[key], holder[key] * 2])
    return damaged


def inside(holder: Any, part: Any) -> bool:
    """True if `holder` is `part` or inside it. (A list inside itself would be infinite.)"""
    return holder is part or any(h[k] is part for h, k in entries_of(holder))


def as_json(good: bytes, dice: Random) -> bytes:
    """Damage a JSON file: usually its tree, sometimes its text."""
    if dice.random() < 0.15:
        return dice.choice(
            [
                lambda: as_bytes(good, dice),
                lambda: b"",
                lambda: b"[" * 100_000,
                lambda: b'{"a":' * 100_000,
                lambda: good + good,
                lambda: b"\xef\xbb\xbf" + good,
                lambda: good.decode().encode("utf-16"),
                lambda: b"9" * 10_000,
            ]
        )()
    return json.dumps(damage_tree(json.loads(good), dice)).encode()


def as_bytes(good: bytes, dice: Random, head: int | None = None) -> bytes:
    """Damage any file, mostly within the first `head` bytes, which hold numbers and names."""
    raw = bytearray(good)
    if not raw:
        return dice.randbytes(20)
    head = min(head or len(raw), len(raw))
    action = dice.choice("cut flip flips number number number delete insert copy swap".split())
    at = dice.randrange(head if dice.random() < 0.8 else len(raw))
    if action == "cut":
        return bytes(raw[:at])
    if action.startswith("flip"):
        for _ in range(1 if action == "flip" else dice.randint(2, 40)):
            raw[at] ^= 1 << dice.randrange(8)
            at = dice.randrange(head)
    elif action == "number":
        size = dice.choice("HIQ")
        number = dice.choice(NUMBERS) % (1 << 8 * struct.calcsize(size))
        raw[at : at + struct.calcsize(size)] = struct.pack("<" + size, number)
    elif action == "delete":
        del raw[at : at + dice.choice([1, 2, 4, 8, 100])]
    elif action == "insert":
        raw[at:at] = dice.randbytes(dice.choice([1, 2, 4, 8, 100]))
    elif action == "copy":
        other, length = dice.randrange(len(raw)), dice.choice([4, 8, 64, 500])
        raw[at : at + length] = raw[other : other + length]
    else:
        raw = raw[at:] + raw[:at]
    return bytes(raw)


def as_png(good: bytes, dice: Random) -> bytes:
    """Damage a PNG but keep valid checksums: change sizes and kinds; remove, repeat, move or damage chunks."""
    if dice.random() < 0.25:
        return as_bytes(good, dice)
    chunks, at = [], 8
    while at + 12 <= len(good):
        length = int.from_bytes(good[at : at + 4], "big")
        chunks.append((good[at + 4 : at + 8], good[at + 8 : at + 8 + length]))
        at += 12 + length
    for _ in range(dice.choice([1, 1, 2])):
        at = dice.randrange(len(chunks)) if dice.random() < 0.5 else 0  # sizes and kinds are in the first
        name, raw = chunks[at]
        action = dice.choice("bytes bytes number number leave double move name".split())
        if action == "bytes" and raw:
            chunks[at] = (name, damage_pixels(raw, dice) if name == b"IDAT" else as_bytes(raw, dice))
        elif action == "number" and len(raw) >= 4:
            offset = dice.randrange(0, len(raw) - 3, 4)
            number = dice.choice([0, 1, 2, 3, 4, 6, 16, 7000, 20_000, 2**31 - 1, 2**32 - 1])
            chunks[at] = (name, raw[:offset] + struct.pack(">I", number) + raw[offset + 4 :])
        elif action == "leave":
            del chunks[at]
        elif action == "double":
            chunks.insert(dice.randrange(len(chunks) + 1), chunks[at])
        elif action == "move":
            chunks.insert(dice.randrange(len(chunks)), chunks.pop(at))
        elif action == "name":
            chunks[at] = (dice.choice([b"IDAT", b"PLTE", b"tRNS", b"acTL", b"iCCP", b"zTXt", b"IEND", b"IHDR"]), raw)
        if not chunks:
            break
    joined = (struct.pack(">I", len(r)) + n + r + struct.pack(">I", zlib.crc32(n + r)) for n, r in chunks)
    return good[:8] + b"".join(joined)


def damage_pixels(raw: bytes, dice: Random) -> bytes:
    """Return compressed data that unpack to damaged pixels, or to far more of them."""
    try:
        pixels = zlib.decompress(raw)
    except zlib.error:
        return as_bytes(raw, dice)
    return zlib.compress(bytes(50_000_000) if dice.random() < 0.1 else as_bytes(pixels, dice))


def as_lines(good: bytes, dice: Random) -> bytes:
    """Damage a text file line by line."""
    lines = good.split(b"\n")
    for _ in range(dice.choice([1, 1, 3])):
        at = dice.randrange(len(lines))
        lines[at : at + 1] = replacement_lines(lines[at], dice)
        lines = lines or [b""]
    return b"\n".join(lines)


def replacement_lines(line: bytes, dice: Random) -> list[bytes]:
    """Return lines to replace a line with."""
    word = dice.choice(WORDS).encode("utf-8", "surrogatepass")
    bare = line.replace(b" ", b"").replace(b"\t", b"")
    return dice.choice([[], [line] * 2, [word], [line + b" " + word], [as_bytes(line, dice)], [bare], [b"\xff\xfe"]])


def as_safetensors(good: bytes, dice: Random, inner: str | None = None) -> bytes:
    """Damage a safetensors file: its JSON header, or the JSON in the metadata entry `inner`."""
    length = int.from_bytes(good[:8], "little")
    if dice.random() < 0.3:
        return as_bytes(good, dice, 8 + length)
    header, data = json.loads(good[8 : 8 + length]), good[8 + length :]
    if inner is not None and dice.random() < 0.7:
        header["__metadata__"][inner] = as_json(header["__metadata__"][inner].encode(), dice).decode("utf-8", "replace")
    else:
        header = damage_tree(header, dice)
    header_json = json.dumps(header).encode()
    header_json += b" " * (-len(header_json) % 8)
    return struct.pack("<Q", len(header_json)) + header_json + data


def as_tensors(good: bytes, dice: Random) -> bytes:
    """Return a valid safetensors file in which tensors have other names, shapes, types and values, or are missing."""
    if dice.random() < 0.3:
        return as_safetensors(good, dice)
    length = int.from_bytes(good[:8], "little")
    header, data = json.loads(good[8 : 8 + length]), good[8 + length :]
    more = header.pop("__metadata__", None)
    tensors = {name: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])]) for name, e in header.items()}
    for _ in range(dice.choice([1, 1, 2, 4])):
        name = dice.choice(list(tensors))
        dtype, shape, raw = tensors.pop(name)
        action = dice.choice("shape shape shape dtype dtype values name name leave".split())
        if action == "shape":
            shape = dice.choice([[], [0], [1], [0, *shape[1:]], [*shape[:1], 0], shape[::-1], [1, *shape], shape[:1]])
            raw = (raw * math.prod(shape))[: math.prod(shape) * SIZES[dtype]]
        elif action == "dtype":
            dtype = dice.choice(list(SIZES))
            raw = (raw * SIZES[dtype])[: math.prod(shape) * SIZES[dtype]]
        elif action == "values":
            raw = (struct.pack("<f", dice.choice([math.nan, math.inf, 3e38, -3e38])) * len(raw))[: len(raw)]
        elif action == "name":
            layer_name = dice.choice(
                ["input_layernorm", "embed_tokens", "norm", "lm_head", "self_attn", "", "x" * 70_000]
            )
            parts = name.split(".")
            parts[dice.randrange(len(parts))] = layer_name
            name = dice.choice(
                [".".join(parts), name + layer_name, name.replace("lora_A", "lora_embedding_A"), layer_name]
            )
        if action != "leave" or not tensors:
            tensors[name] = (dtype, shape, raw)
    header, data = {"__metadata__": more} if more else {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    header_json = json.dumps(header).encode()
    header_json += b" " * (-len(header_json) % 8)
    return struct.pack("<Q", len(header_json)) + header_json + data


def as_json_lines(good: bytes, dice: Random) -> bytes:
    """Damage a line of a JSON Lines file, as JSON or as text."""
    lines = good.rstrip(b"\n").split(b"\n")
    at = dice.randrange(len(lines))
    lines[at : at + 1] = [as_json(lines[at], dice)] if dice.random() < 0.7 else replacement_lines(lines[at], dice)
    return b"\n".join(lines) + b"\n"


def as_gguf(good: bytes, dice: Random) -> bytes:
    """Damage a GGUF file: values, types and counts of its settings, or any byte of its header."""
    settings, begin, end = gguf_settings(good)
    if dice.random() < 0.35:
        return as_bytes(good, dice, end)
    for _ in range(dice.choice([1, 1, 2, 4])):
        at = dice.randrange(len(settings))
        settings[at : at + 1] = gguf_replacements(*settings[at], dice.choice(settings), dice)
        settings = settings or [(b"a", 4, bytes(4))]
    head = good[:16] + struct.pack("<Q", len(settings))
    for key, kind, raw in settings:
        head += struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + raw
    # The tensors begin at a multiple of 32: pad the header, so that their offsets stay correct.
    shift = (len(head) - begin) % 32
    if shift:
        return pad_gguf(head, good[begin:end], 32 - shift) + good[end:]
    return head + good[begin:]


def gguf_replacements(key: bytes, kind: int, raw: bytes, other: Setting, dice: Random) -> list[Setting]:
    """Return settings to replace a setting with."""
    replacements: list[Callable[[], list[Setting]]] = [
        lambda: [],
        lambda: [(key, kind, raw)] * 2,
        lambda: [(key, *gguf_value(dice))],
        lambda: [(key, *gguf_value(dice))],
        lambda: [(key, *gguf_value(dice))],
        lambda: [(key, *other[1:])],
        lambda: [(other[0], kind, raw)],
        lambda: [(dice.choice(WORDS).encode("utf-8", "surrogatepass"), kind, raw)],
        lambda: [(key, kind, as_bytes(raw, dice, 40))],
    ]
    return dice.choice(replacements)()


def pad_gguf(head: bytes, table: bytes, more: int) -> bytes:
    """Add a setting of the length that realigns the table."""
    least = 8 + 1 + 4 + 8
    length = (more - least) % 32
    count = int.from_bytes(head[16:24], "little") + 1
    extra = struct.pack("<Q", 1) + b"~" + struct.pack("<IQ", 8, length) + b"x" * length
    return head[:16] + struct.pack("<Q", count) + head[24:] + extra + table


def gguf_settings(good: bytes) -> tuple[list[Setting], int, int]:
    """Return (key, type, bytes) of each setting, their end and the start of the data, of a valid file."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    at = 24

    def number(code: str) -> int:
        nonlocal at
        (unpacked,) = struct.unpack_from("<" + code, good, at)
        at += struct.calcsize("<" + code)
        return unpacked

    def skip(kind: int) -> None:
        nonlocal at
        if kind in sizes:
            at += sizes[kind]
        elif kind == 8:
            length = number("Q")
            at += length
        else:
            of, count = number("I"), number("Q")
            for _ in range(count):
                skip(of)

    n_tensors, n_settings = struct.unpack_from("<QQ", good, 8)
    settings = []
    for _ in range(n_settings):
        length = number("Q")
        key = good[at : at + length]
        at += length
        kind = number("I")
        start = at
        skip(kind)
        settings.append((key, kind, good[start:at]))
    settings_end = at
    for _ in range(n_tensors):
        length = number("Q")
        at += length
        rank = number("I")
        at += rank * 8 + 4 + 8
    return settings, settings_end, -(-at // 32) * 32


def gguf_value(dice: Random) -> tuple[int, bytes]:
    """Return a random setting as (type, bytes)."""
    kind = dice.choice([4, 4, 5, 6, 7, 8, 8, 9, 9, 10, 11, 12])
    if kind == 8:
        raw = dice.choice(WORDS).encode("utf-8", "surrogatepass")
        return 8, struct.pack("<Q", len(raw)) + raw
    if kind == 9:
        of = dice.choice([4, 5, 6, 8, 9])
        count = dice.choice([0, 1, 3, 257, 1000])
        inner = {4: struct.pack("<I", dice.choice(NUMBERS) % 2**32), 5: b"\xff" * 4, 6: struct.pack("<f", 0.5)}
        element = inner.get(of, struct.pack("<Q", 1) + b"t" if of == 8 else struct.pack("<IQ", 4, 0))
        return 9, struct.pack("<IQ", of, count) + element * count
    number = dice.choice(NUMBERS)
    codes = {4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
    if kind in (6, 12):
        return kind, struct.pack("<" + codes[kind], dice.choice([0.0, -1.0, 1e30, math.nan, math.inf, 1e-40]))
    size = struct.calcsize("<" + codes[kind])
    return kind, (number % (1 << 8 * size)).to_bytes(size, "little")


def as_protobuf(good: bytes, dice: Random) -> bytes:
    """Damage a SentencePiece model: remove, repeat or change fields, and texts and scores of pieces."""
    if dice.random() < 0.3:
        return as_bytes(good, dice)
    fields = protobuf_fields(good)
    for _ in range(dice.choice([1, 1, 3])):
        at = dice.randrange(len(fields))
        number, kind, raw = fields[at]
        inner = protobuf_fields(raw) if kind == 2 else []
        if inner and dice.random() < 0.8:
            position = dice.randrange(len(inner))
            inner[position : position + 1] = protobuf_replacements(*inner[position], dice)
            fields[at] = (number, 2, join_protobuf(inner))
        else:
            fields[at : at + 1] = protobuf_replacements(number, kind, raw, dice)
        fields = fields or [(1, 2, b"")]
    return join_protobuf(fields)


def as_messages(good: bytes, dice: Random) -> bytes:
    """Damage fields of an ONNX model at any depth, often in its largest part."""
    fields = protobuf_fields(good)
    if not fields or dice.random() < 0.1:
        return as_bytes(good, dice)
    at = dice.randrange(len(fields))
    if dice.random() < 0.5:
        at = max(range(len(fields)), key=lambda i: len(fields[i][2]))
    number, kind, raw = fields[at]
    deeper = kind == 2 and dice.random() < 0.8 and protobuf_fields(raw)
    fields[at : at + 1] = (
        [(number, 2, as_messages(raw, dice))] if deeper else protobuf_replacements(number, kind, raw, dice)
    )
    return join_protobuf(fields)


def protobuf_replacements(number: int, kind: int, raw: bytes, dice: Random) -> list[tuple[int, int, bytes]]:
    """Return fields to replace a field with."""
    replacements: list[Callable[[], list[tuple[int, int, bytes]]]] = [
        lambda: [],
        lambda: [(number, kind, raw)] * 2,
        lambda: [(dice.choice([1, 2, 3, 4, 35, 2**28]), kind, raw)],
        lambda: [(number, 0, varint(dice.choice(NUMBERS)))],
        lambda: [(number, 5, struct.pack("<f", dice.choice([math.nan, math.inf, -1e38, 0.0])))],
        lambda: [(number, 2, dice.choice(WORDS).encode("utf-8", "surrogatepass"))],
        lambda: [(number, 2, dice.choice(WORDS).encode("utf-8", "surrogatepass"))],
        lambda: [(number, kind, as_bytes(raw, dice))] if kind == 2 else [(number, kind, raw)],
        lambda: [(number, 1, bytes(8))],
    ]
    return dice.choice(replacements)()


def protobuf_fields(raw: bytes) -> list[tuple[int, int, bytes]]:
    """Return (number, kind, bytes) of each field; an empty list if it is not a message."""
    fields, at = [], 0

    def number() -> int:
        nonlocal at
        decoded, shift = 0, 0
        while True:
            byte = raw[at]
            at += 1
            decoded |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return decoded

    try:
        while at < len(raw):
            key = number()
            kind, start = key & 7, at
            if kind == 0:
                number()
            else:
                length = number() if kind == 2 else {1: 8, 5: 4}[kind]
                start = at
                at += length
            if at > len(raw):
                return []
            fields.append((key >> 3, kind, raw[start:at]))
    except (IndexError, KeyError):
        return []
    return fields


def join_protobuf(fields: list[tuple[int, int, bytes]]) -> bytes:
    """Return the bytes of these fields, the inverse of `protobuf_fields`."""
    return b"".join(
        varint(number << 3 | kind) + (varint(len(raw)) if kind == 2 else b"") + raw for number, kind, raw in fields
    )


def varint(number: int) -> bytes:
    """Return a varint: seven bits per byte, lowest first."""
    encoded = b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])
