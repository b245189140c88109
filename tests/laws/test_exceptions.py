"""What we raise or warn arrives whole wherever it is sent: pickled between processes, copied, or made again from its
args, as pytest's processes do with every warning. A class whose args don't fit its __init__ ends a whole run of tests.
"""

import copy
import importlib
import inspect
import pickle
import pkgutil

import pytest

import qkv
from qkv.i18n import Message, Spoken, all_of

# What an __init__ is given here, by the type it asks for.
GIVEN = {"str": "why", "int": 3, "int | None": 3, "bool": True, "list[str]": ["one", "two"]}
GIVEN |= {
    "BaseException": KeyError("x"),
    "BaseException | None": KeyError("x"),
    "qkv.i18n.Message": Message("cut off"),
}


def kinds():
    """Every exception and warning class of every module."""
    found = {}
    for module in pkgutil.walk_packages(qkv.__path__, "qkv."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, BaseException) and value.__module__.startswith("qkv"):
                    found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


def made(kind):
    if issubclass(kind, Spoken):
        return kind("{word} is not a token of the text; near ones: {near}", word="dog", near=all_of(["cat", "mat"]))
    if not inspect.isfunction(kind.__init__):  # Python's own
        return kind("why")
    asked = list(inspect.signature(kind.__init__, eval_str=True).parameters.values())[1:]
    return kind(*(GIVEN[inspect.formatannotation(each.annotation)] for each in asked))


def whole(error):
    """All there is to see of it."""
    return type(error), str(error), repr(error.args), repr(vars(error))


KINDS = kinds()


def test_all_are_found():
    assert {
        "qkv.i18n.Problem",
        "qkv.i18n.Notice",
        "qkv.lessons.outcome.InvalidAnswer",
        "qkv.doctor.subject.errors.UserError",
    } <= {*KINDS}


@pytest.mark.parametrize("name", KINDS)
def test_it_arrives_whole(name):
    error = made(KINDS[name])
    assert str(error), "it says nothing"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), type(error)(*error.args)):
        assert whole(again) == whole(error)
