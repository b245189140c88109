"""Checks of options: ranges and combinations."""

import argparse
from collections.abc import Mapping

from ..i18n import Problem


def check_range(option: str, value: float | None, least: int, most: int | None = None) -> None:
    """Raise if a number is below `least` or above `most`."""
    if value is not None and not (least <= value and (most is None or value <= most)):
        expected = f"{least}, {least + 1}, {least + 2}, …" if most is None else f"{least} … {most}"
        raise Problem("{option} is {value}: give {wanted}", option=option, value=value, wanted=expected)


def conflict(option: object, other: object) -> Problem:
    """Return the problem of two options that don't go together."""
    return Problem("{one} doesn't go with {other}: leave one of them out", one=option, other=other)


def explicit_options(
    options: argparse.Namespace, names: str, defaults: Mapping[str, object] | None = None
) -> list[str]:
    """Return the named options that are set, with dashes; `defaults` has default values other than None and False.

    >>> explicit_options(argparse.Namespace(mask="causal", no_scale=False, heads=1, seed=0), "mask no_scale heads seed", {"heads": 1})
    ['--mask', '--seed']
    """
    values = {name: getattr(options, name) for name in names.split()}
    unset = {name: (None, (defaults or {}).get(name)) for name in values}
    changed = (name for name, value in values.items() if value is not False and value not in unset[name])
    return ["--" + name.replace("_", "-") for name in changed]
