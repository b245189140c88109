"""qkv masks: draw which token may attend to which."""

import argparse
import json

from ..attention import masks
from ..i18n import say
from .option_checks import check_range

EXAMPLES = [
    "qkv masks causal",
    "qkv masks causal window:3 --n 12",
    'qkv masks "window:2,2 & ~window:0,0"',
    "qkv masks prefix:4",
    "qkv masks padding:3,5 --n 5",
    "qkv masks causal --n 3 --keys 8",
]


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    listed = ", ".join(masks.WORDS.values())
    add(
        "mask",
        nargs="+",
        help=say(
            "one or more of {listed}; each is drawn, then all combined by & (within one, & | ~ work too)", listed=listed
        ),
    )
    add("--n", type=int, default=8, help=say("number of queries"))
    add("--keys", type=int, help=say("number of keys, if not the same"))
    add("--json", action="store_true", help=say("as JSON instead of a drawing"))


def run(options: argparse.Namespace) -> None:
    """Draw each mask and, if there are several, their combination by &."""
    n, m = options.n, options.n if options.keys is None else options.keys
    for option, value in (("--n", n), ("--keys", m)):
        check_range(option, value, 1, 4096)
    rules = [masks.parse(text) for text in options.mask]
    if len(rules) > 1:
        combined = rules[0]
        for rule in rules[1:]:
            combined = combined & rule
        rules.append(combined)
    if options.json:
        print(json.dumps([_as_json(rule, n, m) for rule in rules], ensure_ascii=False))
        return
    for rule in rules:
        batch = rule.size()[0] if rule.batched else 1
        allowed = rule.array(n, m, batch=batch)
        print(f"{rule!r}\n")
        print(rule.draw(n, m, batch=batch))
        print(
            "\n"
            + say(
                "row = query, column = key; ■ may attend, · may not ({allowed} of {total} allowed)",
                allowed=int(allowed.sum()),
                total=allowed.size,
            )
            + "\n"
        )


def _as_json(rule: masks.Mask, n: int, m: int) -> dict[str, object]:
    batch = rule.size()[0] if rule.batched else 1
    return {"mask": repr(rule), "allowed": rule.array(n, m, batch=batch)[:, 0].tolist()}
