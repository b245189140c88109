"""Exceptions and warnings can be pickled, copied, and built again from their args, as pytest-xdist does with warnings.

A class whose args don't fit its __init__ would abort a whole test run.
"""

import copy
import importlib
import inspect
import pickle
import pkgutil

import pytest

import qkv
from qkv.i18n import Message, Spoken, all_of

# Arguments for __init__ by annotation.
ARGUMENTS = {"str": "why", "int": 3, "int | None": 3, "bool": True, "list[str]": ["one", "two"]}
ARGUMENTS |= {
    "BaseException": KeyError("x"),
    "BaseException | None": KeyError("x"),
    "qkv.i18n.Message": Message("cut off"),
}


def exception_classes():
    """Return every exception and warning class of every module."""
    classes = {}
    for module in pkgutil.walk_packages(qkv.__path__, "qkv."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, BaseException) and value.__module__.startswith("qkv"):
                    classes[f"{value.__module__}.{value.__qualname__}"] = value
    return classes


def make_error(cls):
    if issubclass(cls, Spoken):
        return cls("{word} is not a token of the text; near ones: {near}", word="dog", near=all_of(["cat", "mat"]))
    if not inspect.isfunction(cls.__init__):  # Python's own
        return cls("why")
    parameters = list(inspect.signature(cls.__init__, eval_str=True).parameters.values())[1:]
    return cls(*(ARGUMENTS[inspect.formatannotation(each.annotation)] for each in parameters))


def contents(error):
    """Return type, message, args and attributes of an error."""
    return type(error), str(error), repr(error.args), repr(vars(error))


CLASSES = exception_classes()


def test_exception_classes_are_collected():
    assert {
        "qkv.i18n.Problem",
        "qkv.i18n.Notice",
        "qkv.lessons.outcome.InvalidAnswer",
        "qkv.doctor.subject.errors.UserError",
    } <= {*CLASSES}


@pytest.mark.parametrize("name", CLASSES)
def test_copies_equal_the_original(name):
    error = make_error(CLASSES[name])
    assert str(error), "the message is empty"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), type(error)(*error.args)):
        assert contents(again) == contents(error)
